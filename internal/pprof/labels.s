// This file lets labels.go declare functions without bodies, which the linker finds in the runtime.
