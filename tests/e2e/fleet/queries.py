"""The questions of docs/howto-fleet.md, as they stand there: queries.py duckdb|spark DIR HOWTO >rows. Each is asked of the data
set in DIR; a line of JSON for each row, with the number of the question first. spark: on a master and two workers of one core each."""

import json
import re
import sys

TABLES = ["events", "stacks", "ops", "collectives", "steps"]


def of_duckdb(folder):
    import duckdb

    db = duckdb.connect()
    for t in TABLES:
        db.execute(f"CREATE VIEW {t} AS SELECT * FROM read_parquet('{folder}/{t}/**/*.parquet', hive_partitioning = true)")
    return lambda q: db.execute(q).fetchall()


def of_spark(folder):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    for t in TABLES:
        spark.sql(f"CREATE TEMPORARY VIEW {t} USING parquet OPTIONS (path '{folder}/{t}')")
    return lambda q: [tuple(row) for row in spark.sql(q).collect()]


def plain(x):
    return x if x is None or isinstance(x, (int, str)) else round(float(x), 6) if not hasattr(x, "isoformat") else str(x)


which, folder, howto = sys.argv[1:4]
questions = re.findall(r"```sql\n(.*?)```", open(howto).read(), re.S)
ask = {"duckdb": of_duckdb, "spark": of_spark}[which](folder)
for n, question in enumerate(questions, 1):
    for row in ask(question):
        print(json.dumps([n, *map(plain, row)]))
