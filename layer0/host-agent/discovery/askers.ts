/** Who asks discovery over HTTP? Known by the address they come from, which nobody can pretend to have: see network/. */
import { FlynnError } from '@flynn/kit/errors';
import { appAttribute } from '@flynn/discovery/parts';
import type { Container } from '../engine/engine.ts';
import { label, metaOfLabels, ownLabel } from '../engine/labels.ts';

/**
 * `host`: what runs on the machine itself, jobs in its network too. `workload`: a job that was given to Layer 0 without a
 * controller. `part`: of the platform. `app`: of an app, a build of one above all, in which its code runs. Others are `nobody`.
 */
export type Asker = 'host' | 'workload' | 'part' | 'app' | 'nobody';

export function askerAt(address: string, gateway: string, containers: readonly Container[]): Asker {
  if (address === gateway || address === '127.0.0.1') return 'host';
  const found = containers.find((one) => one.state === 'running' && one.address === address);
  if (found?.labels[label.group] === undefined) return 'nobody';
  const meta = metaOfLabels(found.labels);
  if (meta[appAttribute] !== undefined) return meta['flynn.system'] === 'true' ? 'part' : 'app';
  return ownLabel(found.labels, label.identity) === undefined ? 'workload' : 'part';
}

/** Throws `denied` for who only reads: what apps and the platform run is announced by host agents. */
export function checkMayChange(asker: Asker): void {
  if (asker === 'host' || asker === 'workload') return;
  const who =
    asker === 'nobody' ? 'who is no job of this host' : 'a build, or another job of an app or of the platform';
  throw new FlynnError(
    'denied',
    `discovery is for reading only to ${who}: its host's agent announces jobs by what their releases say, and over HTTP programs ` +
      'on the host itself and workloads without an app announce what they like',
  );
}
