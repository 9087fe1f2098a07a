"""What is refused is refused in words."""

import subprocess
import sys
import unittest


class FreeThreaded(unittest.TestCase):
    def test_the_import_says_what_to_do(self) -> None:
        script = (
            "import sysconfig\n"
            "usual = sysconfig.get_config_var\n"
            "sysconfig.get_config_var = lambda name: name == 'Py_GIL_DISABLED' or usual(name)\n"
            "import silica\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("run it with the usual interpreter", done.stderr)


if __name__ == "__main__":
    unittest.main()
