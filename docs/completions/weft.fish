complete --keep-order --exclusive --command weft --arguments "(WEFT_COMPLETE=fish weft -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
