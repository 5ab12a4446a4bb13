BgemmJ
bjª¼Z€_\–