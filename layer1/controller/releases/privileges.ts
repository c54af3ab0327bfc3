/** What may processes ask of their host? Pure. */
import { FlynnError } from '@flynn/kit/errors';
import type { Process } from '../processes/process.ts';
import type { AppResource } from '../resources.ts';

/** What the platform, and apps whose volumes are their own, have on hosts: apps from before these were told apart name no such. */
const ofOthers = /^(?:etcd(?:-.*)?|blobs|logs|repositories|router|[a-z0-9]{12}\..*)$/;
const volumeName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Roles mean something only because an app cannot get at its host: no path of it is mounted (volumes are named, and the
 * host's own), nothing runs privileged (there is no way to ask for it), and only the platform's own apps share the
 * host's network.
 */
export function checkPrivileges(
  { spec }: Readonly<{ spec: Pick<AppResource['spec'], 'name' | 'isSystem' | 'hasOwnVolumes'> }>,
  processes: Readonly<Record<string, Pick<Process, 'hostNetwork' | 'volumes'>>>,
): void {
  for (const [type, { hostNetwork, volumes }] of Object.entries(processes)) {
    const unusable = volumes.find(({ name }) => !volumeName.test(name));
    if (unusable !== undefined) {
      throw new FlynnError(
        'invalid',
        `${type} asks for a volume "${unusable.name}", which is no name: letters, digits, ".", "_" and "-"; volumes are the platform's to place, and no path of the host`,
      );
    }
    const platforms = volumes.find(({ name }) => ofOthers.test(name));
    if (platforms !== undefined && !spec.isSystem && !spec.hasOwnVolumes) {
      throw new FlynnError(
        'denied',
        `${type} of ${spec.name} asks for the volume "${platforms.name}", which is not its own: call it something else`,
      );
    }
    const shared = volumes.find(({ isShared = false }) => isShared);
    if (shared !== undefined && !spec.isSystem) {
      throw new FlynnError(
        'denied',
        `${type} of ${spec.name} asks to share the volume "${shared.name}", which only the platform's own apps may: leave isShared out`,
      );
    }
    if (!hostNetwork || spec.isSystem) continue;
    throw new FlynnError(
      'denied',
      `${type} of ${spec.name} asks for the host's network, which only the platform's own apps may use: give it a port and a route instead`,
    );
  }
}
