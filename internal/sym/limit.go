package sym

// Unlimited is the limit of a dimension that has none: NoMax as an expression.
var Unlimited = Const(NoMax)

// IsUnlimited reports whether a limit is none.
func IsUnlimited(limit Expr) bool { return limit.Equal(Unlimited) }

// FormatLimit is a limit as texts write it: inf, or the expression.
func FormatLimit(limit Expr) string {
	if IsUnlimited(limit) {
		return "inf"
	}
	return limit.String()
}

// AtLimits puts the limits of dimensions in their places. Those without one keep their names.
func AtLimits(e Expr, limits map[Name]Expr) Expr {
	return e.Subst(func(name Name) (Expr, bool) {
		limit, ok := limits[name]
		return limit, ok && !IsUnlimited(limit)
	})
}
