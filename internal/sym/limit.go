package sym

// Unlimited is the limit of an unlimited dimension: NoMax as an expression.
var Unlimited = Const(NoMax)

// IsUnlimited reports whether a limit is Unlimited.
func IsUnlimited(limit Expr) bool { return limit.Equal(Unlimited) }

// FormatLimit returns a limit as in texts: inf, or the expression.
func FormatLimit(limit Expr) string {
	if IsUnlimited(limit) {
		return "inf"
	}
	return limit.String()
}

// AtLimits returns e with dimensions replaced by their limits. Names without a limit stay.
func AtLimits(e Expr, limits map[Name]Expr) Expr {
	return e.Subst(func(name Name) (Expr, bool) {
		limit, ok := limits[name]
		return limit, ok && !IsUnlimited(limit)
	})
}
