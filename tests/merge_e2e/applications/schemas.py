"""What applications begin with: the shapes of their schemas, as their own installers write them.

Each function makes an application's tables on all shards and says which of them get rows.
"""

from collections.abc import Callable
from typing import Final

from tests.merge_e2e.applications.cluster import Cluster


def rails(c: Cluster) -> None:
    """ActiveRecord: backticks, datetime(6), indexes by statements of their own."""
    c.make(
        "CREATE TABLE `users` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `email` varchar(255) DEFAULT '' NOT "
        "NULL, "
        "`name` varchar(255), `admin` tinyint(1) DEFAULT 0, `settings` json, `created_at` datetime(6) NOT NULL, "
        "`updated_at` datetime(6) NOT NULL) CHARSET=utf8mb4",
        "CREATE TABLE `posts` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `user_id` bigint NOT NULL, `title` "
        "varchar(255), `body` longtext, `state` int DEFAULT 0, INDEX `index_posts_on_user_id` (`user_id`), "
        "CONSTRAINT `fk_rails_5b5ddfd518` FOREIGN KEY (`user_id`) REFERENCES `users` (`id`))",
        "CREATE UNIQUE INDEX `index_users_on_email` ON `users` (`email`)",
    )
    c.sharded += ["users", "posts"]


def django(c: Cluster) -> None:
    """Django: constraints added behind the tables, names with hashes."""
    c.make(
        "CREATE TABLE `auth_user` (`id` integer AUTO_INCREMENT NOT NULL PRIMARY KEY, `password` varchar(128) NOT NULL, "
        "`last_login` datetime(6) NULL, `is_superuser` bool NOT NULL, `username` varchar(150) NOT NULL UNIQUE)",
        "CREATE TABLE `polls_choice` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `choice_text` varchar(200) "
        "NOT NULL, "
        "`votes` integer UNSIGNED NOT NULL CHECK (`votes` >= 0), `user_id` integer NOT NULL, `price` numeric(10, 2) "
        "NOT NULL)",
        "ALTER TABLE `polls_choice` ADD CONSTRAINT `polls_choice_user_id_c5b4b260_fk_auth_user_id` FOREIGN KEY "
        "(`user_id`) "
        "REFERENCES `auth_user` (`id`)",
    )
    c.sharded += ["auth_user", "polls_choice"]


def wordpress(c: Cluster) -> None:
    """WordPress: display widths, lower-case clauses, two spaces behind PRIMARY KEY, prefix indexes."""
    c.make(
        "CREATE TABLE wp_posts (\n\tID bigint(20) unsigned NOT NULL auto_increment,\n\tpost_author bigint(20) "
        "unsigned NOT "
        "NULL default '0',\n\tpost_date datetime NOT NULL default '2000-01-01 00:00:00',\n\tpost_content longtext "
        "NOT NULL,\n\t"
        "post_title text NOT NULL,\n\tpost_status varchar(20) NOT NULL default 'publish',\n\tmenu_order int(11) NOT "
        "NULL default "
        "'0',\n\tPRIMARY KEY  (ID),\n\tKEY type_status_date (post_status,post_date,ID),\n\tKEY post_author "
        "(post_author)\n) "
        "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
        "CREATE TABLE wp_options (\n\toption_id bigint(20) unsigned NOT NULL auto_increment,\n\toption_name "
        "varchar(191) NOT NULL "
        "default '',\n\toption_value longtext NOT NULL,\n\tautoload varchar(20) NOT NULL default 'yes',\n\tPRIMARY "
        "KEY  "
        "(option_id),\n\tUNIQUE KEY option_name (option_name),\n\tKEY autoload (autoload)\n) DEFAULT CHARACTER SET "
        "utf8mb4",
        "CREATE TABLE wp_postmeta (meta_id bigint(20) unsigned NOT NULL auto_increment, post_id bigint(20) unsigned "
        "NOT NULL "
        "default '0', meta_key varchar(255) default NULL, meta_value longtext, PRIMARY KEY  (meta_id), KEY post_id "
        "(post_id), "
        "KEY meta_key (meta_key(191)))",
    )
    c.sharded += ["wp_posts", "wp_options", "wp_postmeta"]


def magento(c: Cluster) -> None:
    """Magento: comments everywhere, capital names of keys, timestamps that update themselves; keys from a dump."""
    c.make(
        "CREATE TABLE `catalog_product_entity` (`entity_id` int unsigned NOT NULL COMMENT 'Entity ID', `sku` "
        "varchar(64) DEFAULT "
        "NULL COMMENT 'SKU', `type_id` varchar(32) NOT NULL DEFAULT 'simple' COMMENT 'Type ID', `has_options` "
        "smallint NOT NULL "
        "DEFAULT '0', `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP COMMENT 'Creation Time', "
        "`updated_at` timestamp "
        "NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 "
        "COMMENT='Catalog'",
        "ALTER TABLE `catalog_product_entity`\n  ADD PRIMARY KEY (`entity_id`),\n  ADD KEY "
        "`CATALOG_PRODUCT_ENTITY_SKU` (`sku`)",
        "ALTER TABLE `catalog_product_entity`\n  MODIFY `entity_id` int unsigned NOT NULL AUTO_INCREMENT COMMENT "
        "'Entity ID', "
        "AUTO_INCREMENT=3000",
        "CREATE TABLE `catalog_product_entity_decimal` (`value_id` int NOT NULL AUTO_INCREMENT COMMENT 'Value ID', "
        "`attribute_id` "
        "smallint unsigned NOT NULL DEFAULT '0', `entity_id` int unsigned NOT NULL DEFAULT '0', `value` "
        "decimal(20,6) DEFAULT NULL, "
        "PRIMARY KEY (`value_id`), KEY `IDX_ENT` (`entity_id`), CONSTRAINT `CAT_PRD_ENTT_DEC_ENTT_ID` FOREIGN KEY "
        "(`entity_id`) "
        "REFERENCES `catalog_product_entity` (`entity_id`) ON DELETE CASCADE) COMMENT='Decimals'",
    )
    c.sharded += ["catalog_product_entity", "catalog_product_entity_decimal"]


def sakila(c: Cluster) -> None:
    """sakila: types of every kind, a view, a trigger, a procedure."""
    c.make(
        "CREATE TABLE film (film_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, title VARCHAR(128) NOT NULL, "
        "description TEXT DEFAULT "
        "NULL, release_year YEAR DEFAULT NULL, rental_rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, rating "
        "ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G', special_features SET('Trailers','Commentaries','Deleted "
        "Scenes') DEFAULT "
        "NULL, last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY  "
        "(film_id), KEY "
        "idx_title (title)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        "CREATE TABLE address (address_id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT, address VARCHAR(50) NOT NULL, "
        "/*!50705 location "
        "GEOMETRY */ /*!80003 SRID 0 */ /*!50705 NOT NULL,*/ picture BLOB DEFAULT NULL, active BIT(1) DEFAULT b'1', "
        "PRIMARY KEY  (address_id)"
        ", SPATIAL KEY idx_location (location)) ENGINE=InnoDB",
        "CREATE TABLE film_text (film_id SMALLINT NOT NULL, title VARCHAR(255) NOT NULL, PRIMARY KEY (film_id))",
        "CREATE TRIGGER `ins_film` AFTER INSERT ON `film` FOR EACH ROW BEGIN\n  INSERT INTO film_text (film_id, "
        "title) VALUES "
        "(new.film_id, new.title);\nEND",
        "CREATE TRIGGER `del_film` AFTER DELETE ON `film` FOR EACH ROW DELETE FROM film_text WHERE film_id = "
        "old.film_id",
        "CREATE ALGORITHM=MERGE SQL SECURITY INVOKER VIEW film_list AS SELECT film_id AS FID, title FROM film",
        "CREATE PROCEDURE film_in_stock(IN p INT, OUT n INT) READS SQL DATA BEGIN SELECT COUNT(*) INTO n FROM film; "
        "END",
    )
    c.sharded += ["film", "address"]


def employees(c: Cluster) -> None:
    """employees: keys of several columns, enums, ranges of partitions."""
    c.make(
        "CREATE TABLE employees (emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, "
        "gender ENUM ('M','F') "
        "NOT NULL, hire_date DATE NOT NULL, PRIMARY KEY (emp_no))",
        "CREATE TABLE salaries (emp_no INT NOT NULL, salary INT NOT NULL, from_date DATE NOT NULL, to_date DATE NOT "
        "NULL, PRIMARY KEY "
        "(emp_no, from_date)) PARTITION BY RANGE (YEAR(from_date)) (PARTITION p22 VALUES LESS THAN (2022), "
        "PARTITION p24 VALUES LESS "
        "THAN (2024), PARTITION pmax VALUES LESS THAN MAXVALUE)",
    )
    c.sharded += ["employees", "salaries"]


def sysbench(c: Cluster) -> None:
    """sysbench: tables that are numbered."""
    for number in (1, 2):
        c.make(
            f"CREATE TABLE sbtest{number}(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  k INTEGER DEFAULT '0' NOT "
            "NULL,\n  c CHAR(120) DEFAULT "
            "'' NOT NULL,\n  pad CHAR(60) DEFAULT '' NOT NULL,\n  PRIMARY KEY (id)\n) /*! ENGINE = innodb */",
            f"CREATE INDEX k_{number} ON sbtest{number}(k)",
        )
    c.sharded += ["sbtest1", "sbtest2"]


def spring(c: Cluster) -> None:
    """Spring Batch and Hibernate: upper-case names, a table for a sequence."""
    c.make(
        "CREATE TABLE BATCH_JOB_INSTANCE (JOB_INSTANCE_ID BIGINT NOT NULL PRIMARY KEY, VERSION BIGINT, JOB_NAME "
        "VARCHAR(100) NOT NULL, "
        "JOB_KEY VARCHAR(32) NOT NULL, constraint JOB_INST_UN unique (JOB_NAME, JOB_KEY)) ENGINE=InnoDB",
        "create table Orders (id bigint not null, placedAt datetime(6), total decimal(38,2), note varchar(255), "
        "primary key (id)) "
        "engine=InnoDB",
    )
    c.sharded += ["BATCH_JOB_INSTANCE", "Orders"]


APPLICATIONS: Final[tuple[Callable[[Cluster], None], ...]] = (
    rails, django, wordpress, magento, sakila, employees, sysbench, spring,
)  # fmt: skip
