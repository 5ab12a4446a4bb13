package conns

import "testing"

// TestClient: connections of one machine have one client, also through IPv6's many addresses and IPv4's in IPv6.
func TestClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "192.0.2.1:8080": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"192.0.2.2:80": "192.0.2.2", "[2001:db8::1]:80": "2001:db8::/64", "[2001:db8::ffff:2]:81": "2001:db8::/64",
		"[2001:db8:0:1::1]:80": "2001:db8:0:1::/64", "[fe80::1%eth0]:80": "fe80::/64", "@": "@", "": "",
	} {
		if got := Client(address); got != want {
			t.Errorf("%q is of the client %q, want %q", address, got, want)
		}
	}
}
