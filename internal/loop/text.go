// # Text
//
// A module's text begins with its version. Names of buffers and scalars begin with %, those of kernels and modules with
// @, dimensions that the compiler made with ?, and a kernel's loop variables and checked values with $. The model's
// dimensions have no sign, so that the names never clash. In a kernel written by hand, names without a sign that are
// not among its dims are read as names with a $:
//
//	weir 1
//	loop @main {
//	  dim n in [1, 64]
//	  buffer %x: f32[n, 10] input
//	  buffer %y: f32[n, 10] output
//	  kernel @softmax(%x: f32[n, 10] read, %y: f32[n, 10] write) dims(n) {
//	    parallel $i < n {
//	      var %m: f32 = -inf
//	      for $k < 10 {
//	        %m max= load %x[$i, $k]
//	      }
//	      var %s: f32 = 0
//	      for $k1 < 10 {
//	        %s add= exp(sub(load %x[$i, $k1], %m))
//	      }
//	      vector $k2 < 10 {
//	        store %y[$i, $k2] = div(exp(sub(load %x[$i, $k2], %m)), %s)
//	      }
//	    }
//	  }
//	  body {
//	    launch @softmax(%x, %y)
//	  }
//	}
//
// Scalar functions are applied as exp(x) and add(x, y). A constant is 0.5 if its position decides the type, else
// f32(0.5). index(i + 1) is a symbolic integer as a value; cast(f16, x) converts, and wraps float8 with a third word. A
// load may have a mask, load %x[i] if m else 0, and so may a store, store %y[i] = x where m. The text omits the
// contents of weights of more than 16 elements, which ParseOptions.Data supplies.
package loop
