"""A file is valid by the JSON schema of speedscope's file format: valid.py SCHEMA FILE"""

import json
import sys

import jsonschema

schema, file = (json.load(open(f, encoding="utf-8")) for f in sys.argv[1:])
jsonschema.Draft7Validator(schema).validate(file)
assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
