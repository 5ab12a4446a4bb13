
either
J‡F†¼
J‡F†¼