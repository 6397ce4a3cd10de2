"""Values as SQL that a MySQL server reads, and the SQL by which it shows them."""
