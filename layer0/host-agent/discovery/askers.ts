/** Who asks discovery over HTTP? Known by the address they come from, which nobody can pretend to have: see network/. */
import { FlynnError } from '@flynn/kit/errors';
import { appAttribute } from '@flynn/discovery/parts';
import type { Container } from '../engine/engine.ts';
import { label, metaOfLabels, ownLabel } from '../engine/labels.ts';

/**
 * `host`: what runs on the machine itself, jobs in its network too. `workload`: a job that was given to Layer 0 without a
 * controller. `part`: of the platform. `app`: of an app, a build of one above all, in which its code runs. `nobody`: a container
 * that is no job. `unknown`: where no container is known to run, or several that are not alike.
 */
export type Asker = 'host' | 'workload' | 'part' | 'app' | 'nobody' | 'unknown';

export function askerAt(address: string, gateway: string, containers: readonly Container[]): Asker {
  if (address === gateway || address === '127.0.0.1') return 'host';
  const found = containers.filter((one) => one.state === 'running' && one.address === address);
  const [asker = 'unknown', ...others] = new Set(found.map(askerOf));
  // One of them has ended, and its address is another's by now.
  return others.length > 0 ? 'unknown' : asker;
}

function askerOf({ labels }: Container): Asker {
  if (labels[label.group] === undefined) return 'nobody';
  const meta = metaOfLabels(labels);
  if (meta[appAttribute] !== undefined) return meta['flynn.system'] === 'true' ? 'part' : 'app';
  return ownLabel(labels, label.identity) === undefined ? 'workload' : 'part';
}

/**
 * Throws `denied` for who only reads: what apps and the platform run is announced by host agents. `unavailable` while it is not
 * known who asks, for a job may be faster than what its agent hears of it, and an agent that has just begun knows none.
 */
export function checkMayChange(asker: Asker): void {
  if (asker === 'host' || asker === 'workload') return;
  if (asker === 'unknown') {
    throw new FlynnError(
      'unavailable',
      'discovery does not know which job of this host asks: one that has just started, or whose host’s agent has, is known ' +
        'in a moment, so ask again; who is none announces nothing',
    );
  }
  const who =
    asker === 'nobody' ? 'who is no job of this host' : 'a build, or another job of an app or of the platform';
  throw new FlynnError(
    'denied',
    `discovery is for reading only to ${who}: its host's agent announces jobs by what their releases say, and over HTTP programs ` +
      'on the host itself and workloads without an app announce what they like',
  );
}
