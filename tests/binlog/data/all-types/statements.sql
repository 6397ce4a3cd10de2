-- Every column type and every kind of rows event that MySQL 9.7 writes. `python -m tests.binlog.record` runs this on a real
-- server and keeps its binlogs beside this file; each section between `-- session` lines is a session of its own.
create database d;
create table d.numbers (id int primary key auto_increment,
  ti tinyint, tu tinyint unsigned, si smallint, su smallint unsigned, mi mediumint, mu mediumint unsigned, i int, iu int unsigned,
  b bigint, bu bigint unsigned, f float, db double, de decimal(10,2), de2 decimal(65,30), de3 decimal(5,5), de4 decimal(18,0),
  de5 decimal(30,0), bt bit(1), bt5 bit(5), bt8 bit(8), bt64 bit(64));
create table d.times (id int primary key auto_increment, y year, d date, t0 time, t1 time(1), t3 time(3), t6 time(6),
  dt datetime, dt2 datetime(2), dt6 datetime(6), ts timestamp null, ts3 timestamp(3) null, ts6 timestamp(6) null);
create table d.texts (id int primary key auto_increment, c char(10), c255 char(255), cu char(5) character set latin1, bi binary(5),
  bi200 binary(200), v varchar(20), v300 varchar(300), vb varbinary(20), vb300 varbinary(300), tt tinytext, tx text, mt mediumtext,
  lt longtext, tb tinyblob, bb blob, mb mediumblob, lb longblob, gb varchar(10) character set gbk, l1 text character set latin1,
  u2 varchar(9) character set ucs2, sj varchar(9) character set sjis) default charset utf8mb4;
create table d.others (id int primary key auto_increment, e enum('a','b','x,y','é'), s set('p','q','r'),
  s33 set('s0','s1','s2','s3','s4','s5','s6','s7','s8','s9','s10','s11','s12','s13','s14','s15','s16','s17','s18','s19','s20',
          's21','s22','s23','s24','s25','s26','s27','s28','s29','s30','s31','s32'),
  el enum('k','l') character set latin1, j json, g geometry, pt point, ve vector(3));
create table d.docs (id int primary key, j1 json, j2 json, x int, j3 json, v varchar(20), tx text);
create table d.nokey (a int, b varchar(10));
-- session
set sql_mode='', time_zone='+00:00';
insert into d.numbers set ti=-128, tu=255, si=-32768, su=65535, mi=-8388608, mu=16777215, i=-2147483648, iu=4294967295,
  b=-9223372036854775808, bu=18446744073709551615, f=1.5, db=-2.25e100, de=-12345678.91,
  de2='12345678901234567890123456789012345.123456789012345678901234567891', de3=-0.12345, de4=999999999999999999,
  de5=-123456789012345678901234567890, bt=b'1', bt5=b'10101', bt8=b'11111111', bt64=x'8000000000000001';
insert into d.numbers set ti=127, tu=0, si=-1, su=1, mi=-1, mu=8388608, i=-1, iu=2147483648, b=-1, bu=9223372036854775808,
  f=-0.5, db=0.1, de=0.05, de2=-0.000000000000000000000000000001, de3=0, de4=-1, de5=0, bt=0, bt5=0, bt8=1, bt64=0;
insert into d.numbers values ();
insert into d.times set y=2155, d='9999-12-31', t0='-838:59:59', t1='-00:00:00.5', t3='12:34:56.789', t6='-1:02:03.000001',
  dt='9999-12-31 23:59:59', dt2='2024-02-29 01:02:03.45', dt6='2024-02-29 01:02:03.456789', ts='2038-01-19 03:14:07',
  ts3='2024-02-29 01:02:03.456', ts6='2024-02-29 01:02:03.000001';
insert into d.times set y=0, d='0000-00-00', t0=0, t1='00:00:00.1', t3='-00:00:00.001', t6='838:59:59', dt='0000-00-00',
  dt2='2024-00-15', dt6='1000-01-01', ts='0000-00-00', ts3='0000-00-00', ts6='1970-01-01 00:00:01';
insert into d.texts set c='ab  ', c255=repeat('ü',200), cu='é', bi=x'0102000000', bi200=repeat(x'ff',200), v='vvv ',
  v300=repeat('z',280), vb=x'00ff00', vb300=repeat(x'01',299), tt='tiny', tx='it''s \\ text', mt='medium', lt='long\nline', tb=x'01',
  bb=x'0202', mb=x'030303', lb=x'04040404', gb='中文', l1='€é', u2='ab', sj='カナ';
insert into d.texts set c='', c255='', cu='', bi='', v='', v300='', vb='', tt='', tx='', tb='', bb='', gb='', l1='', u2='', sj='';
insert into d.others set e='x,y', s='p,r', s33='s0,s32', el='l',
  j='{"a":1,"b":[true,null,-1,70000,-70000,5000000000,-5000000000,18446744073709551615,1.5,"str"],"n":{"x":"y"},"":[]}',
  g=st_geomfromtext('POINT(1 2)',4326), pt=point(3,4), ve=to_vector('[1,2.5,-3]');
insert into d.others set e='', s='', j='null';
insert into d.others (j) values ('[]'), ('{}'), ('"s"'), ('1'), ('-1.5'), ('true'), ('[[[{"deep":[1,[2]]}]]]');
insert into d.others (j) values (json_object('dec', cast(-1.50 as decimal(10,2)), 'dt', cast('2024-01-02 03:04:05.6' as datetime(6)),
  'd', cast('2024-01-02' as date), 't', cast('-10:11:12.5' as time(6)), 'bin', cast(x'0102' as binary)));
update d.others set e='b', s=null where id=1;
delete from d.others where id=2;
insert into d.docs values
  (1, '{"a":1,"pad":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","l":[1,2,3]}', '{"a":1,"pad":"bbbbbbbbbbbbbbbbbbbbbbbbbbbb"}', 1,
   '{"a":1}', 'v', 'text'),
  (2, '{"a":2,"pad":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","l":[1,2,3]}', '{"a":1,"pad":"bbbbbbbbbbbbbbbbbbbbbbbbbbbb"}', 1,
   null, 'v', 'text');
-- session
set binlog_row_value_options=PARTIAL_JSON;
update d.docs set j2=json_set(j2,'$.a',9), x=3 where id=1;
update d.docs set j1=json_remove(j1,'$.l[0]'), x=4 where id=1;
update d.docs set j1=json_set(j1,'$.a','z','$.l[1]',7), j2=json_set(j2,'$.a',10);
update d.docs set x=5;
update d.docs set j1=json_set(j1,'$.a',9), j3='[1]' where id=1;
-- session
set binlog_row_value_options=PARTIAL_JSON, binlog_row_image=MINIMAL;
update d.docs set j2=json_set(j2,'$.a',11), x=6;
update d.docs set x=7;
-- session
set binlog_row_image=MINIMAL;
update d.docs set tx='min' where id=1;
insert into d.docs (id) values (1000);
delete from d.docs where id=1000;
-- session
set binlog_row_image=NOBLOB;
update d.docs set v='nb' where id=1;
update d.docs set tx='nb2' where id=1;
-- session
set binlog_transaction_compression=ON;
begin;
insert into d.docs (id, v) values (20,'compressed'), (21,repeat('c',20));
update d.docs set v='c2' where id=20;
commit;
-- session
set gtid_next='AUTOMATIC:tag_a';
insert into d.nokey values (1,'tagged');
-- session
set sql_generate_invisible_primary_key=1;
create table d.gipk (a int);
insert into d.gipk values (5);
-- session
create table d.part (id int primary key) partition by hash(id) partitions 3;
insert into d.part values (1),(2);
update d.part set id=id+10;
-- session
xa start 'g1','b1',7;
insert into d.nokey values (2,'xa');
xa end 'g1','b1',7;
xa prepare 'g1','b1',7;
xa commit 'g1','b1',7;
xa start 'g2';
insert into d.nokey values (3,'1pc');
xa end 'g2';
xa commit 'g2' one phase;
-- session
set binlog_format=STATEMENT, transaction_isolation='REPEATABLE-READ', @u='x', @n=5, time_zone='+02:00';
insert into d.nokey values (@n,@u);
insert into d.nokey values (rand()*10,'r');
insert into d.nokey values (1, date_format(now(6),'%f'));
insert into d.gipk values (last_insert_id());
-- session
create user `u``1`@localhost;
grant select on d.* to `u``1`@localhost;
set enable_cascade_triggers=ON;
create table d.late (a int) comment 'flush follows';
flush logs;
set global binlog_checksum=NONE;
insert into d.nokey values (4,'no crc');
set global binlog_row_metadata=MINIMAL;
flush logs;
insert into d.texts set v='minimal metadata';
insert into d.numbers set iu=7, tu=200;
set global binlog_checksum=CRC32;
drop database d;
