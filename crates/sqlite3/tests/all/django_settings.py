"""Settings of Django's own tests whose databases are files, in the directory SCRATCH."""

import os


def database(name):
    path = os.path.join(os.environ["SCRATCH"], name)
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path + ".db",
            "TEST": {"NAME": path + "_test.db"}}


DATABASES = {name: database(name) for name in ("default", "other")}
SECRET_KEY = "tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
