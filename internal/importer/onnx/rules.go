package onnx

// rules are all rules of the importer.
var rules = assemble(coreTable, sequenceTable, signalTable, mlTable, microsoftTable, trainingTable)
