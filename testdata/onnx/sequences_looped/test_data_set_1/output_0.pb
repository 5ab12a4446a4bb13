
grown
J‡F†¼