import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { installedProgram } from '@flynn/host-agent/agent-process';
import { type AgentProgram, installAgent, isGivenUp, replaceLink } from './program.ts';

const one = programOf('one');
const two = programOf('two');

function programOf(name: string): AgentProgram {
  return { name, code: Buffer.from(`// ${name}`) };
}

async function withState(task: (stateDir: string) => Promise<void>): Promise<void> {
  const stateDir = await mkdtemp(join(tmpdir(), 'flynn-agent-'));
  try {
    await task(stateDir);
  } finally {
    await rm(stateDir, { recursive: true, force: true });
  }
}

function foldersOf(stateDir: string): Promise<string[]> {
  return readdir(join(stateDir, 'agent'));
}

test('the version installed last is started, and the one before it is there to go back to', () =>
  withState(async (stateDir) => {
    for (const program of [programOf('none'), one, two]) await installAgent(stateDir, program);
    assert.equal(await readFile(installedProgram(stateDir), 'utf8'), '// two');
    assert.equal(await readlink(join(stateDir, 'agent/previous')), 'one');
    assert.deepEqual((await foldersOf(stateDir)).sort(), ['choose-version', 'current', 'one', 'previous', 'two']);
    assert.equal(await isGivenUp(stateDir, 'two'), false);
    assert.equal(await isGivenUp(stateDir, 'one'), true);
  }));

test('one that is there already stays as it is, and gets all its starts again where it was given up', () =>
  withState(async (stateDir) => {
    await installAgent(stateDir, one);
    await installAgent(stateDir, two);
    const folder = join(stateDir, 'agent/two');
    await writeFile(join(folder, 'proven'), '');
    await writeFile(join(folder, 'starts'), '4\n');
    const { ino } = await stat(folder);
    await replaceLink(join(stateDir, 'agent/current'), 'one');
    await installAgent(stateDir, two);
    assert.equal((await stat(folder)).ino, ino);
    assert.ok((await readdir(folder)).includes('proven'));
    assert.ok(!(await readdir(folder)).includes('starts'));
    assert.equal(await isGivenUp(stateDir, 'two'), false);
  }));

test('what a power cut left empty, and what an attempt left half written, gives way to the whole', () =>
  withState(async (stateDir) => {
    await installAgent(stateDir, one);
    await writeFile(installedProgram(stateDir), '');
    await writeFile(join(stateDir, 'agent/incoming'), 'half');
    await installAgent(stateDir, one);
    assert.equal(await readFile(installedProgram(stateDir), 'utf8'), '// one');
    assert.ok(!(await foldersOf(stateDir)).includes('incoming'));
  }));
