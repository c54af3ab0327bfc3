/** What this process holds, after a full collection. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { FlynnError } from '@flynn/kit/errors';

export function usedBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect !== 'function') throw new FlynnError('internal', 'this Node.js cannot be told to collect');
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
