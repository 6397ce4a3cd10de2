"""Object stores and file systems that pyarrow reads: what is said where they cannot be asked."""

import pytest

from binlog_merge.errors import IoError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.files.remote import list_files, remote_error


def test_google_storage_that_does_not_answer_is_given_up_within_seconds() -> None:
    nowhere = "gs://anonymous@bucket/x*?endpoint_override=127.0.0.1:1&scheme=http"
    with pytest.raises(ObjectStoreUnreachable, match="Google") as caught:
        list_files(nowhere)
    assert "error_info" not in str(caught.value)


def test_what_google_storage_refuses_is_no_fault_of_the_network() -> None:
    said = OSError("google::cloud::Status(PERMISSION_DENIED: no access to the bucket error_info={reason=})")
    error = remote_error(said, "gs://bucket/x", 7)
    assert isinstance(error, ObjectStoreRefused)
    assert "no access to the bucket" in str(error) and "error_info" not in str(error)


def test_hadoops_file_system_without_its_client_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(IoError) as caught:
        list_files("hdfs://nowhere:1/x*")
    assert "\n" not in caught.value.message
    assert "libhdfs.so" in str(caught.value.remedy)
