package ops

// undifferentiated says why an operator with float results has no derivative.
var undifferentiated = map[string]string{}
