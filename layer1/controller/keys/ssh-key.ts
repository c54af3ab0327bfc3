/** What is an SSH public key called, and is it one that should be let in? The formats are those of RFC 4253 and OpenSSH. */
import { createHash } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';

export type SshKey = { type: string; fingerprint: string; publicKey: string; comment: string };

const accepted = new Set([
  'ssh-ed25519',
  'ssh-rsa',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
]);
const minRsaBits = 2048;

/** Reads a line of an `id_*.pub` file. Throws `invalid` for anything else, saying what it seems to be. */
export function parseSshKey(text: string): SshKey {
  const line = text.trim();
  if (line === '') throw refusal('the key is empty');
  if (line.includes('PRIVATE KEY')) {
    throw refusal('this is a private key: it never leaves your machine. Send the file that ends in .pub');
  }
  if (line.includes('\n')) throw refusal('there is more than one line: send one key at a time');
  const [type = '', encoded = '', ...comment] = line.split(/\s+/);
  if (type === 'ssh-dss') throw refusal('DSA keys are too weak; make one with ssh-keygen -t ed25519');
  if (!accepted.has(type)) {
    throw refusal(
      `a key starts with its type, like "ssh-ed25519 AAAA…"; "${type.slice(0, 40)}" is not one that is accepted`,
    );
  }
  const blob = Buffer.from(encoded, 'base64');
  if (
    encoded === '' ||
    !/^[A-Za-z0-9+/]+={0,2}$/.test(encoded) ||
    blob.toString('base64') !== encoded.padEnd(Math.ceil(encoded.length / 4) * 4, '=')
  ) {
    throw refusal('the part after the type is not base64: was it cut when it was copied?');
  }
  const fields = fieldsOf(blob);
  if (fields === undefined || fields.length < 2) throw refusal('the key is cut short: copy all of the .pub file');
  if (fields[0]?.toString('latin1') !== type) throw refusal(`it says ${type}, but the key inside is of another type`);
  checkStrength(type, fields);
  return {
    type,
    fingerprint: `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`,
    publicKey: `${type} ${blob.toString('base64')}`,
    comment: comment.join(' '),
  };
}

function checkStrength(type: string, fields: readonly Buffer[]): void {
  if (type === 'ssh-ed25519' && fields[1]?.length !== 32)
    throw refusal('an Ed25519 key holds 32 bytes; this one does not');
  if (type !== 'ssh-rsa') return;
  const bits = bitsOf(fields[2]);
  if (bits < minRsaBits) {
    throw refusal(
      `an RSA key of ${bits} bits is too weak: at least ${minRsaBits}, or make one with ssh-keygen -t ed25519`,
    );
  }
}

function bitsOf(modulus: Buffer | undefined): number {
  const hex = (modulus?.toString('hex') ?? '').replace(/^0+/, '');
  return hex === '' ? 0 : (hex.length - 1) * 4 + parseInt(hex.charAt(0), 16).toString(2).length;
}

/** Length-prefixed strings, to the last byte; undefined if they do not come out even. */
function fieldsOf(blob: Buffer): Buffer[] | undefined {
  const fields: Buffer[] = [];
  let at = 0;
  while (at < blob.length) {
    if (at + 4 > blob.length) return undefined;
    const end = at + 4 + blob.readUInt32BE(at);
    if (end > blob.length) return undefined;
    fields.push(blob.subarray(at + 4, end));
    at = end;
  }
  return fields;
}

function refusal(why: string): FlynnError {
  return new FlynnError('invalid', `not a usable SSH public key: ${why}`);
}
