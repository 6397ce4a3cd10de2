"""SHOW REPLICA STATUS of a server that is nobody's replica: MySQL 9.7's columns, and no row."""

from typing import Final

from binlog_merge.serve.relation import columns

COLUMNS: Final = columns(
    "Replica_IO_State Source_Host Source_User Source_Port:int Connect_Retry:int Source_Log_File "
    "Read_Source_Log_Pos:big Relay_Log_File Relay_Log_Pos:big Relay_Source_Log_File Replica_IO_Running "
    "Replica_SQL_Running Replicate_Do_DB Replicate_Ignore_DB Replicate_Do_Table Replicate_Ignore_Table "
    "Replicate_Wild_Do_Table Replicate_Wild_Ignore_Table Last_Errno:int Last_Error Skip_Counter:int "
    "Exec_Source_Log_Pos:big Relay_Log_Space:big Until_Condition Until_Log_File Until_Log_Pos:big Source_SSL_Allowed "
    "Source_SSL_CA_File Source_SSL_CA_Path Source_SSL_Cert Source_SSL_Cipher Source_SSL_Key Seconds_Behind_Source:big "
    "Source_SSL_Verify_Server_Cert Last_IO_Errno:int Last_IO_Error Last_SQL_Errno:int Last_SQL_Error "
    "Replicate_Ignore_Server_Ids Source_Server_Id:int Source_UUID Source_Info_File SQL_Delay:int "
    "SQL_Remaining_Delay:int Replica_SQL_Running_State Source_Retry_Count:big Source_Bind Last_IO_Error_Timestamp "
    "Last_SQL_Error_Timestamp Source_SSL_Crl Source_SSL_Crlpath Retrieved_Gtid_Set Executed_Gtid_Set Auto_Position:int "
    "Replicate_Rewrite_DB Channel_Name Source_TLS_Version Source_public_key_path Get_Source_public_key:int "
    "Network_Namespace"
)
