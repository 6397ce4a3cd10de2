"""An independent oracle: the merge again, slow and plain, sharing no code with the product.

Reads everything, joins with dicts, sorts tuples, reshapes cell by cell. Follows the written specification only, so that
a difference from the product is a fault in one of the two.
"""

from tests.oracle.binlog import OracleError
from tests.oracle.merge import OracleResult, merge_case
from tests.oracle.reshape import Change, same_bytes_modulo_optional_metadata

__all__ = ["Change", "OracleError", "OracleResult", "merge_case", "same_bytes_modulo_optional_metadata"]
