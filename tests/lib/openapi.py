# SPDX-License-Identifier: Apache-2.0
"""Is a document one of OpenAPI 3.1? The specification's rules for its structure, as far as an HTTP API in JSON uses it.

    faults(document) -> a list of sentences, empty when there are none
"""

import re

import jsonschema

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Which members an object may have, and which it must have.
OBJECTS = {
    "document": ("openapi info jsonSchemaDialect servers paths webhooks components security tags externalDocs", "openapi info"),
    "info": ("title summary description termsOfService contact license version", "title version"),
    "path": ("$ref summary description servers parameters " + " ".join(METHODS), ""),
    "operation": ("tags summary description externalDocs operationId parameters requestBody responses callbacks deprecated security servers",
                  "operationId responses"),
    "parameter": ("name in description required deprecated allowEmptyValue style explode allowReserved schema example examples content", "name in"),
    "header": ("description required deprecated style explode schema example examples content", ""),
    "requestBody": ("description content required", "content"),
    "media": ("schema example examples encoding", ""),
    "response": ("description headers content links", "description"),
    "components": ("schemas responses parameters examples requestBodies headers securitySchemes links callbacks pathItems", ""),
    "server": ("url description variables", "url"),
    "tag": ("name description externalDocs", "name"),
}


class Checker:
    def __init__(self, doc):
        self.doc, self.found, self.ids = doc, [], set()

    def say(self, where, text):
        self.found.append(f"{where}: {text}")

    def shape(self, kind, node, where):
        may, must = (set(x.split()) for x in OBJECTS[kind])
        if not isinstance(node, dict):
            self.say(where, "is no object")
            return False
        for key in node:
            if key not in may and not str(key).startswith("x-"):
                self.say(where, f"has the unknown member '{key}'")
        for key in must - set(node):
            self.say(where, f"has no '{key}'")
        return True

    def deref(self, node, where):
        while isinstance(node, dict) and "$ref" in node:
            at = self.doc
            try:
                for part in node["$ref"].removeprefix("#/").split("/"):
                    at = at[part.replace("~1", "/").replace("~0", "~")]
            except (KeyError, TypeError):
                self.say(where, f"refers to {node['$ref']}, which is not there")
                return {}
            node = at
        return node

    def refs(self, node, where):
        """Each $ref leads somewhere, also those in schemas."""
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                self.deref(node, where)
            for key, value in node.items():
                if value is None and " " in str(key):
                    self.say(where, f"has the member '{key}': a comma that wants quotes")
                self.refs(value, f"{where}/{key}")
        elif isinstance(node, list):
            for i, value in enumerate(node):
                self.refs(value, f"{where}/{i}")

    def schema(self, schema, where, examples=()):
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.SchemaError as e:
            self.say(where, f"is no JSON schema: {e.message}")
            return
        for example in examples:
            for e in jsonschema.Draft202012Validator({**schema, "components": self.doc.get("components", {})}).iter_errors(example):
                self.say(where, f"has an example that is none: {e.message}")

    def content(self, content, where, wants_example):
        for kind, media in (content or {}).items():
            here = f"{where} {kind}"
            if not self.shape("media", media, here):
                continue
            if not re.fullmatch(r"[a-z]+/[a-z0-9.+*-]+", kind):
                self.say(here, "is no media type")
            examples = [media["example"]] if "example" in media else []
            if wants_example and not examples:
                self.say(here, "has no example")
            if "schema" in media:
                self.schema(media["schema"], here, examples)

    def parameter(self, node, where):
        p = self.deref(node, where)
        if not self.shape("parameter", p, where):
            return None, None
        if p.get("in") not in ("path", "query", "header", "cookie"):
            self.say(where, f"is in '{p.get('in')}'")
        if p.get("in") == "path" and p.get("required") is not True:
            self.say(where, "is part of the path and not required")
        if ("schema" in p) == ("content" in p):
            self.say(where, "needs either a schema or a content")
        if p.get("required") and "example" not in p:
            self.say(where, "is required and has no example")
        if "schema" in p:
            self.schema(p["schema"], where, [p["example"]] if "example" in p else [])
        return p.get("name"), p.get("in")

    def operation(self, path, op, shared, where):
        if not self.shape("operation", op, where):
            return
        if op.get("operationId") in self.ids:
            self.say(where, f"has the operationId of another: {op['operationId']}")
        self.ids.add(op.get("operationId"))
        named = [self.parameter(p, f"{where} parameter {i}") for i, p in enumerate(shared + op.get("parameters", []))]
        if len(set(named)) != len(named):
            self.say(where, "has a parameter twice")
        if {n for n, at in named if at == "path"} != set(re.findall(r"\{([^}]+)\}", path)):
            self.say(where, "does not declare the parts of its path")
        if "requestBody" in op:
            body = self.deref(op["requestBody"], where)
            if self.shape("requestBody", body, f"{where} body"):
                self.content(body.get("content"), f"{where} body", True)
        if not op.get("responses"):
            self.say(where, "has no answers")
        for status, node in op.get("responses", {}).items():
            here = f"{where} {status}"
            if not re.fullmatch(r"default|[1-5](\d\d|XX)", str(status)):
                self.say(here, "is no status")
            answer = self.deref(node, here)
            if self.shape("response", answer, here):
                self.content(answer.get("content"), here, False)
                for name, header in answer.get("headers", {}).items():
                    self.shape("header", self.deref(header, here), f"{here} {name}")
        self.security(op.get("security", []), where)

    def security(self, wanted, where):
        known = self.doc.get("components", {}).get("securitySchemes", {})
        for one in wanted:
            for name in one:
                if name not in known:
                    self.say(where, f"wants the credential '{name}', which is not described")

    def check(self):
        doc = self.doc
        if not self.shape("document", doc, "document"):
            return
        if not re.fullmatch(r"3\.1\.\d+", str(doc.get("openapi"))):
            self.say("document", f"is of version {doc.get('openapi')}")
        self.shape("info", doc.get("info"), "info")
        self.shape("components", doc.get("components", {}), "components")
        for i, server in enumerate(doc.get("servers", [])):
            self.shape("server", server, f"servers/{i}")
        for i, tag in enumerate(doc.get("tags", [])):
            self.shape("tag", tag, f"tags/{i}")
        self.refs(doc, "#")
        if self.found:
            return  # examples cannot be held to what is not there
        self.security(doc.get("security", []), "document")
        for name, schema in doc.get("components", {}).get("schemas", {}).items():
            self.schema(schema, f"schema {name}")
        for path, item in doc.get("paths", {}).items():
            if not path.startswith("/") or path.endswith("/"):
                self.say(path, "is no path")
            if self.shape("path", item, path):
                for method in METHODS:
                    if method in item:
                        self.operation(path, item[method], item.get("parameters", []), f"{method.upper()} {path}")
        tags = {t["name"] for t in doc.get("tags", [])}
        for path, item in doc.get("paths", {}).items():
            for method in METHODS:
                for tag in item.get(method, {}).get("tags", []) if tags else []:
                    if tag not in tags:
                        self.say(f"{method.upper()} {path}", f"has the tag '{tag}', which is not described")


def faults(doc):
    c = Checker(doc)
    c.check()
    return c.found
