# SPDX-License-Identifier: Apache-2.0
"""A small registry of images, as docker and skopeo speak with one, in memory. Handlers for nettest's https().

    reg = Registry("robot", PASSWORD)                        # wants Basic of every request
    reg = Registry("robot", PASSWORD, "https://auth.test/token")     # wants tokens, which reg.tokens hands out for Basic
    net.https("registry.test", reg.handle)
    net.https("auth.test", reg.give_token)
"""

import base64
import hashlib
import json
import os
import re
import threading
import urllib.parse


class Registry:
    def __init__(self, user, password, realm=None):
        self.basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.realm = realm
        self.lock = threading.Lock()
        self.blobs, self.manifests, self.uploads, self.issued = {}, {}, {}, {}
        self.refused = 0

    def load(self, name, tag, path):
        """An OCI layout of a directory, as NAME:TAG."""
        blobs = os.path.join(path, "blobs", "sha256")
        for digest in os.listdir(blobs):
            with open(os.path.join(blobs, digest), "rb") as f:
                self.blobs["sha256:" + digest] = f.read()
        with open(os.path.join(path, "index.json"), encoding="ascii") as f:
            top = json.load(f)["manifests"][0]
        self.put_manifest(name, tag, top["mediaType"], self.blobs[top["digest"]])

    def put_manifest(self, name, ref, kind, data):
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.manifests[name, ref] = self.manifests[name, digest] = kind, data
        return digest

    # Who may

    def give_token(self, q):
        """The token's own server: Basic, then a token for what was asked."""
        if q.headers.get("Authorization") != self.basic:
            self.refused += 1
            return 401, {"WWW-Authenticate": 'Basic realm="tokens"'}, "who are you?\n"
        token = base64.b32encode(os.urandom(40)).decode()
        self.issued[token] = urllib.parse.parse_qs(q.path.partition("?")[2]).get("scope", [""])
        return 200, {"Content-Type": "application/json"}, json.dumps({"token": token, "expires_in": 300})

    def challenge(self, name, act):
        if not self.realm:
            return 'Basic realm="registry"'
        scope = f',scope="repository:{name}:{act}"' if name else ""
        return f'Bearer realm="{self.realm}",service="registry"{scope}'

    def may(self, q, name, act):
        given = q.headers.get("Authorization", "")
        if not self.realm:
            return given == self.basic
        scopes = self.issued.get(given.removeprefix("Bearer "))
        if scopes is None:
            return False
        return not name or any(s.startswith(f"repository:{name}:") and act.split(",")[0] in s for s in scopes)

    # What it does

    def handle(self, q):
        path, _, query = q.path.partition("?")
        m = re.fullmatch(r"/v2/(?:(.+)/(manifests|blobs/uploads|blobs|tags)/(.*))?", path)
        if not m:
            return 404, {}, "no\n"
        name, what, ref = m.groups()
        act = "pull" if q.method in ("GET", "HEAD") else "push,pull"
        if not self.may(q, name, act):
            self.refused += 1
            return 401, {"WWW-Authenticate": self.challenge(name, act), "Docker-Distribution-Api-Version": "registry/2.0"}, "{}"
        if not name:
            return 200, {"Docker-Distribution-Api-Version": "registry/2.0"}, "{}"
        with self.lock:
            return {"manifests": self.manifest, "blobs": self.blob, "blobs/uploads": self.upload, "tags": self.tags}[what](
                q, name, ref, query)

    def tags(self, _q, name, _ref, _query):
        tags = [ref for n, ref in self.manifests if n == name and ":" not in ref]
        return 200, {"Content-Type": "application/json"}, json.dumps({"name": name, "tags": tags})

    def manifest(self, q, name, ref, _query):
        if q.method == "PUT":
            digest = self.put_manifest(name, ref, q.headers["Content-Type"], q.body)
            return 201, {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/manifests/{digest}"}, ""
        if (name, ref) not in self.manifests:
            return 404, {"Content-Type": "application/json"}, '{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'
        kind, data = self.manifests[name, ref]
        return 200, {"Content-Type": kind, "Docker-Content-Digest": "sha256:" + hashlib.sha256(data).hexdigest()}, data

    def blob(self, _q, _name, ref, _query):
        if ref not in self.blobs:
            return 404, {"Content-Type": "application/json"}, '{"errors":[{"code":"BLOB_UNKNOWN"}]}'
        return 200, {"Content-Type": "application/octet-stream", "Docker-Content-Digest": ref}, self.blobs[ref]

    def upload(self, q, name, ref, query):
        if q.method == "POST":
            ref = os.urandom(8).hex()
            self.uploads[ref] = b""
        if ref not in self.uploads:
            return 404, {}, "no such upload\n"
        self.uploads[ref] += q.body
        where = {"Location": f"/v2/{name}/blobs/uploads/{ref}", "Range": f"0-{max(len(self.uploads[ref]) - 1, 0)}",
                 "Docker-Upload-UUID": ref}
        if q.method != "PUT":
            return 202, where, ""
        data = self.uploads.pop(ref)
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        if digest != urllib.parse.parse_qs(query).get("digest", [""])[0]:
            return 400, {}, "that is something else\n"
        self.blobs[digest] = data
        return 201, {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/blobs/{digest}"}, ""
