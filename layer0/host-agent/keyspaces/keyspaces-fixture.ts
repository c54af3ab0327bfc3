/** For tests: containers with keyspaces, and what a driver of etcd says to a door. */
import { createHash } from 'node:crypto';
import type { Keyspace } from '@flynn/scheduler/job-template';
import type { Container } from '../engine/engine.ts';
import { jobOf } from '../host-fixture.ts';
import { jobLabels } from '../engine/labels.ts';

export const password = 'a password';

export function keyspaceOf(name: string): Keyspace {
  return { name, keyDigest: `sha256:${createHash('sha256').update(password).digest('hex')}` };
}

/** A running container of a job with that keyspace. */
export function containerOf(keyspace: Keyspace | undefined, more: Partial<Container> = {}): Container {
  const template = keyspace === undefined ? {} : { keyspace };
  return {
    id: 'c1',
    name: 'c1',
    labels: jobLabels(jobOf('a', template)),
    state: 'running',
    address: '127.0.0.1',
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: 0,
    isOutOfMemory: false,
    ...more,
  };
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Keys, ends and values as etcd's gateway has them: `at('a/')` is of the keyspace's key `a/`. */
export const keysOf = (prefix: string) => ({
  at: (key: string): string => base64(prefix + key),
  /** All below a key, as Patroni asks for it. */
  below: (key: string): { key: string; range_end: string } => {
    const end = Buffer.from(prefix + key);
    end.writeUInt8(end.readUInt8(end.length - 1) + 1, end.length - 1);
    return { key: base64(prefix + key), range_end: end.toString('base64') };
  },
});
