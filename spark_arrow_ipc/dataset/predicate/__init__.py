"""The option `where` as a typed predicate: parse it, bind it to columns, skip what cannot match."""
