import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { decrypted, encrypted } from './encryption.ts';

const frame = 64 * 1024;

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const cheap = { cost: 2 ** 14 };
const sealed = (plain: Buffer): Promise<Buffer> => buffer(encrypted(inPieces(plain, 50_000), 'right', cheap));
const opened = (bytes: Buffer, passphrase: string | undefined, size = 70_001): Promise<Buffer> =>
  buffer(decrypted(inPieces(bytes, size), passphrase));

test('what was encrypted is read with its passphrase, of whatever length and however it arrives', async () => {
  for (const length of [0, 1, frame - 1, frame, frame + 1, 2 * frame, 200_000]) {
    const plain = randomBytes(length);
    const file = await sealed(plain);
    // Shorter ones may be in it by chance.
    if (length >= 32) assert.equal(file.includes(plain.subarray(0, 32)), false, `${length}`);
    assert.deepEqual(await opened(file, 'right'), plain, `${length}`);
    assert.deepEqual(await opened(file, 'right', 1_000), plain, `${length}`);
  }
});

test('without it, with another, cut at a frame or anywhere, with frames moved or a byte changed nothing is given out as whole', async () => {
  const plain = randomBytes(3 * frame);
  const file = await sealed(plain);
  const start = file.indexOf('\n') + 1;
  const whole = frame + 16;
  await assert.rejects(opened(file, undefined), /encrypted: give its passphrase/);
  await assert.rejects(opened(file, 'wrong'), /passphrase is not its own/);
  await assert.rejects(opened(file.subarray(0, start + 2 * whole), 'right'), /damaged or was cut/);
  await assert.rejects(opened(file.subarray(0, start + whole + 100), 'right'), /damaged or was cut/);
  await assert.rejects(opened(file.subarray(0, start), 'right'), /passphrase is not its own, or/);
  await assert.rejects(opened(file.subarray(0, 30), 'right'), /header has no end/);
  const [one, two] = [file.subarray(start, start + whole), file.subarray(start + whole, start + 2 * whole)];
  const moved = Buffer.concat([file.subarray(0, start), two, one, file.subarray(start + 2 * whole)]);
  await assert.rejects(opened(moved, 'right'), /passphrase is not its own, or/);
  for (const at of [start + 5, start + whole + 5, file.length - 1]) {
    const changed = Buffer.from(file);
    changed[at] = (changed[at] ?? 0) ^ 1;
    await assert.rejects(opened(changed, 'right'), /damaged/);
  }
  await assert.rejects(opened(Buffer.concat([file, Buffer.from('more')]), 'right'), /damaged/);
  const greedy = file.toString('latin1').replace('"n":16384', '"n":999999999');
  await assert.rejects(opened(Buffer.from(greedy, 'latin1'), 'right'), /does not know/);
});

test('what was not encrypted passes through where there is no passphrase', async () => {
  for (const length of [0, 3, 100_000]) {
    const plain = Buffer.alloc(length, 'x');
    assert.deepEqual(await opened(plain, undefined), plain);
  }
});

test('one in clear is refused where there is a passphrase: anybody could have put it there', async () => {
  const source = async function* (): AsyncGenerator<Uint8Array> {
    yield Buffer.from('an archive of somebody else');
  };
  await assert.rejects(buffer(decrypted(source(), 'correct horse')), /not encrypted, and there is a passphrase/);
});
