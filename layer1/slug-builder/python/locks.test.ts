import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Lock, requirementFiles } from './locked.ts';
import { readPipfileLock } from './pipfile.ts';
import { readPoetryLock } from './poetry-lock.ts';
import { readPyProject } from './pyproject.ts';
import { readUvLock } from './uv-lock.ts';

const linesOf = (lock: Lock): string[] => {
  const { checked, unchecked } = requirementFiles(lock);
  return [...checked.split('\n'), ...unchecked.split('\n')].filter((line) => line !== '');
};

test('a Pipfile.lock is installed with the digests it has, from where it says, and its folders as folders', () => {
  const lock = readPipfileLock(
    JSON.stringify({
      _meta: { sources: [{ url: 'https://pypi.org/simple' }, { url: 'https://u:$CORP_KEY@pip.corp.test/simple' }] },
      default: {
        flask: { version: '==3.0', hashes: ['sha256:aa', 'sha256:bb'], markers: "python_version >= '3.8'" },
        mine: { git: 'https://h/x.git', ref: 'abc', subdirectory: 'lib' },
        greet: { path: 'greet' },
        any: { version: '*', extras: ['a', 'b'] },
      },
    }),
  );
  assert.deepEqual(requirementFiles(lock), {
    checked:
      '--extra-index-url https://u:${CORP_KEY}@pip.corp.test/simple\n' +
      "flask==3.0 ; python_version >= '3.8' --hash=sha256:aa --hash=sha256:bb\n",
    unchecked:
      '--extra-index-url https://u:${CORP_KEY}@pip.corp.test/simple\n' +
      'mine @ git+https://h/x.git@abc#subdirectory=lib\n./greet\nany[a,b]\n',
  });
  assert.throws(() => readPipfileLock('{"default": []}'), { code: 'invalid', message: /pipenv lock/ });
});

const uvLock = `
version = 1
requires-python = ">=3.12"

[[package]]
name = "shop"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "uvicorn", extra = ["standard"] },
    { name = "numpy", version = "1.26.4", source = { registry = "https://pypi.org/simple" }, marker = "python_full_version < '3.13'" },
    { name = "numpy", version = "2.1.0", source = { registry = "https://pypi.org/simple" }, marker = "python_full_version >= '3.13'" },
    { name = "corp-lib" },
    { name = "patched" },
    { name = "member" },
]

[package.dev-dependencies]
dev = [{ name = "pytest" }]

[[package]]
name = "uvicorn"
version = "0.30.0"
source = { registry = "https://pypi.org/simple" }
dependencies = [{ name = "click" }, { name = "colorama", marker = "sys_platform == 'win32'" }]
sdist = { url = "https://files.pythonhosted.org/u.tar.gz", hash = "sha256:01", size = 1 }
wheels = [{ url = "https://files.pythonhosted.org/u.whl", hash = "sha256:02", size = 1 }]

[package.optional-dependencies]
standard = [{ name = "uvloop", marker = "sys_platform != 'win32'" }]

[[package]]
name = "click"
version = "8.1.7"
source = { registry = "https://pypi.org/simple" }
dependencies = [{ name = "colorama", marker = "platform_system == 'Windows'" }]
wheels = [{ url = "https://files.pythonhosted.org/c.whl", hash = "sha256:03", size = 1 }]

[[package]]
name = "colorama"
version = "0.4.6"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/co.whl", hash = "sha256:04", size = 1 }]

[[package]]
name = "uvloop"
version = "0.20.0"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/ul.whl", hash = "sha256:05", size = 1 }]

[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/n1.whl", hash = "sha256:06", size = 1 }]

[[package]]
name = "numpy"
version = "2.1.0"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/n2.whl", hash = "sha256:07", size = 1 }]

[[package]]
name = "corp-lib"
version = "1.0"
source = { registry = "https://pip.corp.test/simple" }
wheels = [{ url = "https://pip.corp.test/corp.whl", hash = "sha256:08", size = 1 }]

[[package]]
name = "patched"
version = "2.0"
source = { git = "https://github.com/a/patched?subdirectory=py&rev=main#0123456789" }

[[package]]
name = "member"
version = "0.1.0"
source = { editable = "packages/member" }

[[package]]
name = "pytest"
version = "8.3.0"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/p.whl", hash = "sha256:09", size = 1 }]
`;

test('a uv.lock is installed as it is: what the app needs and nothing of development, each under its markers', () => {
  const lock = readUvLock(uvLock);
  assert.equal(lock.isPackage, false);
  assert.deepEqual(linesOf(lock), [
    '--extra-index-url https://pip.corp.test/simple',
    'uvicorn==0.30.0 --hash=sha256:01 --hash=sha256:02',
    'click==8.1.7 --hash=sha256:03',
    "colorama==0.4.6 ; ((platform_system == 'Windows')) or ((sys_platform == 'win32')) --hash=sha256:04",
    "uvloop==0.20.0 ; (sys_platform != 'win32') --hash=sha256:05",
    "numpy==1.26.4 ; (python_full_version < '3.13') --hash=sha256:06",
    "numpy==2.1.0 ; (python_full_version >= '3.13') --hash=sha256:07",
    'corp-lib==1.0 --hash=sha256:08',
    '--extra-index-url https://pip.corp.test/simple',
    'patched @ git+https://github.com/a/patched@0123456789#subdirectory=py',
    './packages/member',
  ]);
  assert.equal(readUvLock(uvLock.replace('{ virtual = "." }', '{ editable = "." }')).isPackage, true);
  assert.throws(() => readUvLock('[[package]'), { code: 'invalid', message: /uv\.lock is not usable[^]*uv lock/ });
});

test('of a version that comes from two places, uv.lock says who is meant; of a workspace without a project all members are installed', () => {
  const wheel = 'wheels = [{ url = "https://h/t.whl", hash = "sha256:01", size = 1 }]';
  const torch = (index: string, hash: string): string =>
    `[[package]]\nname = "torch"\nversion = "2.4.1"\nsource = { registry = "${index}" }\n${wheel.replace('01', hash)}\n`;
  const [pypi, cpu] = ['https://pypi.org/simple', 'https://download.pytorch.org/whl/cpu'];
  const lock = readUvLock(`
[manifest]
members = ["api", "jobs"]
[[package]]
name = "api"
version = "1"
source = { editable = "packages/api" }
dependencies = [
    { name = "torch", version = "2.4.1", source = { registry = "${pypi}" }, marker = "sys_platform == 'darwin'" },
    { name = "torch", version = "2.4.1", source = { registry = "${cpu}" }, marker = "sys_platform != 'darwin'" },
]
[[package]]
name = "jobs"
version = "1"
source = { virtual = "packages/jobs" }
dependencies = [{ name = "six" }]
[[package]]
name = "six"
version = "1.16"
source = { registry = "${pypi}" }
${wheel}
${torch(pypi, '02')}${torch(cpu, '03')}`);
  assert.deepEqual(linesOf(lock), [
    `--extra-index-url ${cpu}`,
    "torch==2.4.1 ; (sys_platform == 'darwin') --hash=sha256:02",
    "torch==2.4.1 ; (sys_platform != 'darwin') --hash=sha256:03",
    'six==1.16 --hash=sha256:01',
    `--extra-index-url ${cpu}`,
    './packages/api',
  ]);
  assert.equal(lock.isPackage, false);
});

test('however many ways lead to a package, its markers are found in time, and those that all ways have are kept', () => {
  const stages = 16;
  const one = (name: string, dependencies: readonly string[]): string =>
    `[[package]]\nname = "${name}"\nversion = "1"\nsource = { registry = "https://pypi.org/simple" }\ndependencies = [${dependencies.join()}]\n`;
  const all = Array.from({ length: stages }, (_, at) => [
    one(`n${at}`, [
      `{ name = "a${at}", marker = "python_version < '3.${at}'" }`,
      `{ name = "b${at}", marker = "platform_machine == 'm${at}'" }`,
    ]),
    ...['a', 'b'].map((name) => one(`${name}${at}`, [`{ name = "n${at + 1}" }`])),
  ]).flat();
  const app = `[[package]]\nname = "app"\nversion = "1"\nsource = { virtual = "." }\ndependencies = [{ name = "n0", marker = "sys_platform == 'win32'" }]\n`;
  const { packages } = readUvLock([app, ...all, one(`n${stages}`, [])].join(''));
  const last = packages.find(({ requirement }) => requirement.startsWith(`n${stages}==`))?.requirement ?? '';
  assert.ok(last.includes("sys_platform == 'win32'"), last);
  assert.ok(packages.every(({ requirement }) => requirement.length < 50_000));
});

const poetryProject = readPyProject(`
[tool.poetry]
name = "shop"
package-mode = false

[tool.poetry.dependencies]
python = "^3.12"
Flask = "^3.0"
uvicorn = { version = "^0.30", extras = ["standard"] }
psycopg = { version = "^3", optional = true }

[tool.poetry.group.dev.dependencies]
pytest = "^8"
`);
const flask =
  '[[package]]\nname = "flask"\nversion = "3.0.0"\noptional = false\nfiles = [{file = "f.whl", hash = "sha256:01"}]\n';

test('a poetry.lock of Poetry 2 says itself what belongs to production', () => {
  const lock = readPoetryLock(
    `${flask}groups = ["main"]\nmarkers = "python_version >= \\"3.12\\""
[[package]]
name = "pytest"
version = "8"
optional = false
groups = ["dev"]
files = [{file = "p.whl", hash = "sha256:02"}]
[[package]]
name = "psycopg"
version = "3"
optional = true
groups = ["main"]
files = []
[[package]]
name = "both"
version = "1"
optional = false
groups = ["main", "dev"]
markers = {main = "sys_platform == \\"linux\\""}
files = []
[package.source]
type = "git"
url = "https://github.com/a/both.git"
reference = "main"
resolved_reference = "0123"
`,
    poetryProject,
  );
  assert.deepEqual(linesOf(lock), [
    'flask==3.0.0 ; python_version >= "3.12" --hash=sha256:01',
    'both @ git+https://github.com/a/both.git@0123 ; sys_platform == "linux"',
  ]);
  assert.equal(lock.isPackage, false);
});

test('of an older poetry.lock it is what the app needs, and what that needs', () => {
  const lock = readPoetryLock(
    `${flask}
[package.dependencies]
click = ">=8"
importlib-metadata = {version = ">=3.6", markers = "python_version < \\"3.10\\""}
[[package]]
name = "click"
version = "8"
optional = false
files = [{file = "c.whl", hash = "sha256:02"}]
[[package]]
name = "importlib_metadata"
version = "4"
optional = false
files = [{file = "i.whl", hash = "sha256:03"}]
[[package]]
name = "uvicorn"
version = "0.30"
optional = false
files = [{file = "u.whl", hash = "sha256:04"}]
[package.dependencies]
click = ">=7"
uvloop = {version = ">=0.14", optional = true, markers = "sys_platform != \\"win32\\" and extra == \\"standard\\""}
httptools = {version = "*", optional = true, markers = "extra == \\"other\\""}
[package.extras]
standard = ["uvloop (>=0.14) ; sys_platform != \\"win32\\""]
other = ["httptools"]
[[package]]
name = "uvloop"
version = "0.20"
optional = true
files = [{file = "l.whl", hash = "sha256:05"}]
[[package]]
name = "httptools"
version = "1"
optional = true
files = [{file = "h.whl", hash = "sha256:06"}]
[[package]]
name = "pytest"
version = "8"
optional = false
files = [{file = "p.whl", hash = "sha256:07"}]
`,
    poetryProject,
  );
  assert.deepEqual(linesOf(lock), [
    'flask==3.0.0 --hash=sha256:01',
    'click==8 --hash=sha256:02',
    'importlib_metadata==4 ; (python_version < "3.10") --hash=sha256:03',
    'uvicorn==0.30 --hash=sha256:04',
    'uvloop==0.20 ; (sys_platform != "win32" and python_version >= "3") --hash=sha256:05',
  ]);
});

test('an older poetry.lock has its digests at its end; who needs what in which Python, or platform, says pyproject.toml', () => {
  const one = (name: string, version: string): string =>
    `[[package]]\nname = "${name}"\nversion = "${version}"\ncategory = "main"\noptional = false\n`;
  const project = readPyProject(`
[tool.poetry.dependencies]
python = "^3.9"
tomli = { version = "^2", python = "<3.11" }
pywin32 = { version = "*", platform = "win32" }
numpy = [
    { version = "^1.26", python = "^3.9, <3.12" },
    { version = "^2", python = "~3.12 || 3.13", markers = "os_name == 'posix'" },
]
`);
  const files = '[metadata.files]\ntomli = [{file = "t.whl", hash = "sha256:01"}]\nnumpy = []\n';
  const lines = linesOf(
    readPoetryLock([one('tomli', '2'), one('pywin32', '3'), one('numpy', '2'), files].join(''), project),
  );
  assert.deepEqual(lines, [
    "tomli==2 ; (python_full_version < '3.11') --hash=sha256:01",
    "pywin32==3 ; (sys_platform == 'win32')",
    "numpy==2 ; ((python_full_version >= '3.9' and python_full_version == '3.*' and python_full_version < '3.12')) or (((os_name == 'posix') and ((python_full_version >= '3.12' and python_full_version == '3.12.*') or (python_full_version == '3.13.*'))))",
  ]);
  const two = [one('numpy', '1.26.4'), one('numpy', '2.1.0')].join('');
  assert.throws(() => readPoetryLock(two, project), {
    code: 'invalid',
    message: /numpy is 1\.26\.4 and when 2\.1\.0[^]*Poetry 2/,
  });
});
