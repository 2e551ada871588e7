"""The store on PostgreSQL, for one daemon or many."""
