package dtype

// LoadFloat returns element i of packed data as a float64.
func LoadFloat(dt DType, data []byte, i int64) float64 { panic("dtype: not written yet") }

// LoadInt returns element i of packed data as an int64; a U64 as its bits.
func LoadInt(dt DType, data []byte, i int64) int64 { panic("dtype: not written yet") }

// LoadComplex returns element i of packed data as a complex128.
func LoadComplex(dt DType, data []byte, i int64) complex128 { panic("dtype: not written yet") }

// StoreFloat rounds x to dt and stores it as element i.
func StoreFloat(dt DType, data []byte, i int64, x float64) { panic("dtype: not written yet") }

// StoreInt stores x, a U64 as its bits, as element i.
func StoreInt(dt DType, data []byte, i int64, x int64) { panic("dtype: not written yet") }

// StoreComplex rounds x to dt and stores it as element i.
func StoreComplex(dt DType, data []byte, i int64, x complex128) { panic("dtype: not written yet") }

// ConvertSlice converts n packed elements.
func ConvertSlice(dst DType, d []byte, src DType, s []byte, n int64, saturate bool) {
	panic("dtype: not written yet")
}

// F16FromF32 rounds x to an f16.
func F16FromF32(x float32) uint16 { panic("dtype: not written yet") }

// F16ToF32 returns the value of an f16.
func F16ToF32(code uint16) float32 { panic("dtype: not written yet") }

// BF16FromF32 rounds x to a bf16.
func BF16FromF32(x float32) uint16 { panic("dtype: not written yet") }

// BF16ToF32 returns the value of a bf16.
func BF16ToF32(code uint16) float32 { panic("dtype: not written yet") }
