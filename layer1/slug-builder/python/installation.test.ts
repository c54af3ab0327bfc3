import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { installationOf } from './installation.ts';

/** What pip is given of an app of these files. */
async function argsFor(files: Record<string, string>): Promise<(readonly string[])[]> {
  await using app = await bench(files);
  const { steps } = await installationOf(app.context());
  return steps.map(({ args }) => args.map((arg) => arg.replace(`${app.layout.scratchDir}/`, '')));
}

test('an app whose pyproject.toml has settings of tools alone is installed as its setup.py or setup.cfg says', async () => {
  const tools = { 'pyproject.toml': '[tool.black]\nline-length = 100\n' };
  const setup = { 'setup.py': 'from setuptools import setup; setup(install_requires=["flask"])' };
  assert.deepEqual(await argsFor({ ...tools, ...setup }), [['.']]);
  assert.deepEqual(await argsFor({ ...tools, 'setup.cfg': '[options]\ninstall_requires =\n  flask\n' }), [['.']]);
  assert.deepEqual(await argsFor({ ...tools, 'setup.cfg': '[flake8]\nmax-line-length = 100\n' }), []);
});

test('without a lockfile a package is installed with what its build says it needs, and of what is none its dependencies', async () => {
  const project = '[project]\nname = "shop"\nversion = "1"\n';
  const installed = (text: string) => argsFor({ 'pyproject.toml': `${project}${text}` });
  const requirements = [['-r', 'requirements-of-pyproject.txt']];
  assert.deepEqual(await installed('dependencies = ["flask"]\n'), requirements);
  assert.deepEqual(await installed('dependencies = ["flask"]\n[build-system]\nrequires = ["hatchling"]\n'), [['.']]);
  const dynamic = 'dynamic = ["dependencies"]\n[tool.setuptools.dynamic]\ndependencies = { file = ["deps.txt"] }\n';
  assert.deepEqual(await installed(dynamic), [['.']]);
  const poetry = '[tool.poetry]\npackage-mode = false\n[tool.poetry.dependencies]\nflask = "^3"\n';
  await assert.rejects(argsFor({ 'pyproject.toml': poetry }), { code: 'invalid', message: /poetry lock/ });
});

test('of a lockfile what has digests is installed first, then what has none, and last the app where it is a package', async () => {
  const lock = `
[[package]]
name = "shop"
version = "1"
source = { editable = "." }
dependencies = [{ name = "six" }, { name = "lib" }]
[[package]]
name = "six"
version = "1.16"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://h/s.whl", hash = "sha256:01", size = 1 }]
[[package]]
name = "lib"
version = "1"
source = { directory = "libs/lib" }
`;
  const files = { 'pyproject.toml': '[project]\nname = "shop"\nversion = "1"\n', 'uv.lock': lock };
  assert.deepEqual(await argsFor(files), [
    ['--no-deps', '--require-hashes', '-r', 'checked-requirements.txt'],
    ['--no-deps', '-r', 'unchecked-requirements.txt'],
    ['--no-deps', '.'],
  ]);
});

test("what a lock's index asks for reaches pip by its environment, and what it is given depends on no login", async () => {
  const index = 'https://pip.corp.test/simple';
  await using app = await bench({
    'pyproject.toml': `[project]\nname = "shop"\nversion = "1"\n[[tool.uv.index]]\nname = "corp"\nurl = "${index}"\n`,
    'uv.lock': `[[package]]\nname = "shop"\nversion = "1"\nsource = { virtual = "." }\ndependencies = [{ name = "six" }]\n[[package]]\nname = "six"\nversion = "1"\nsource = { registry = "${index}" }\nsdist = { hash = "sha256:01" }\n`,
  });
  const appEnv = { UV_INDEX_CORP_USERNAME: 'me', UV_INDEX_CORP_PASSWORD: 'hunter2' };
  const { env, dependsOn, check } = await installationOf({ ...app.context(), appEnv });
  assert.deepEqual(env, { FLYNN_INDEX_1: 'me:hunter2' });
  assert.equal(dependsOn, '--extra-index-url https://${FLYNN_INDEX_1}@pip.corp.test/simple\nsix==1 --hash=sha256:01\n');
  assert.match(check?.join() ?? '', /UV_INDEX_CORP_PASSWORD/);
  const file = await readFile(join(app.layout.scratchDir, 'checked-requirements.txt'), 'utf8');
  assert.doesNotMatch(file, /hunter2/);
});
