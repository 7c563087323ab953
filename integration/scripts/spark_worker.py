"""A Spark session that takes commands: one JSON object a line on its input, one a line on its output.

    {"sql": STATEMENT}     answers {"rows": [[VALUE, …], …]}
    {"under": {NAME: VALUE}, "sql": [STATEMENT, …]}
                           runs them under settings that hold for them alone; answers with the rows of the last
    {"set": {NAME: VALUE}} sets, or with null unsets, settings of the session; answers {"rows": []}
    {"python": PROGRAM}    runs it with `spark` and `functions` in scope; what it leaves in `answer` is in {"value": …}

What fails answers {"error": MESSAGE}. All else is in SPARK_CONF_DIR. The first line that it writes is {"ready": VERSION}.
"""

import json
import os
import sys

# Whatever prints must not get between the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(value):
    answers.write(json.dumps(value, default=str) + "\n")
    answers.flush()


def under(spark, settings, statements):
    before = {name: spark.conf.get(name, None) for name in settings}
    rows = []
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        for statement in statements:
            rows = spark.sql(statement).collect()
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
    return {"rows": [list(row) for row in rows]}


def obey(spark, command):
    if "under" in command:
        return under(spark, command["under"], command["sql"])
    if "sql" in command:
        return {"rows": [list(row) for row in spark.sql(command["sql"]).collect()]}
    if "set" in command:
        for name, value in command["set"].items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
        return {"rows": []}
    from pyspark.sql import functions

    scope = {"spark": spark, "functions": functions, "answer": None}
    exec(command["python"], scope)
    return {"value": scope["answer"]}


def main():
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("calve").getOrCreate()
    say({"ready": spark.version})
    for line in sys.stdin:
        try:
            say(obey(spark, json.loads(line)))
        except Exception as error:
            # Java's stack follows the message.
            say({"error": str(error).split("\n\tat ")[0].strip() or repr(error)})


main()
