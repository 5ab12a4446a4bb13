package loop

import (
	"fmt"
	"testing"
)

// TestCourseOf: a kernel of parallel nests and one serial loop of parallel nests has a course, with the nests before,
// in and after the loop. Kernels with any other statement, or with extents that the loop's variable determines, have
// none.
func TestCourseOf(t *testing.T) {
	nest := func(v, extent string) string {
		return "parallel " + v + " < " + extent + " { store %y[" + v + "] = 1 }\n"
	}
	for _, c := range []struct{ name, body, want string }{
		{"steps alone", "for s < n {" + nest("i", "4") + "}", "0 1 0"},
		{"nests around", nest("a", "2") + nest("b", "n") + "for s < n {" + nest("i", "4") + nest("j", "n") + "}" +
			nest("c", "3"), "2 2 1"},
		{"no steps", nest("a", "2") + nest("b", "2"), "none"},
		{"two loops of steps", "for s < n {" + nest("i", "4") + "} for r < n {" + nest("j", "4") + "}", "none"},
		{"a nest whose extent the step decides", "for s < n {" + nest("i", "s") + "}", "none"},
		{"something else in a step", "for s < n {" + nest("i", "4") + "store %y[0] = 1 }", "none"},
		{"something else around", "store %y[0] = 1 for s < n {" + nest("i", "4") + "}", "none"},
		{"no nest in a step", nest("a", "2") + "for s < n { for j < 2 { store %y[0] = 1 } }", "none"},
	} {
		k, err := ParseKernel("kernel @k(%y: f32[8] write) dims(n) {" + c.body + "}")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := "none"
		if course, ok := CourseOf(k); ok {
			got = fmt.Sprint(len(course.Before), len(course.Each), len(course.After))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if n := len(Nests(k)); c.want != "none" && n != 1 {
			t.Errorf("%s: %d nests without courses", c.name, n)
		}
	}
}
