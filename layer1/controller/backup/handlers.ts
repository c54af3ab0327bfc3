import { createHash } from 'node:crypto';
import type { BlobClient } from '@flynn/blobstore/client';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Deps } from '../deps.ts';
import { backups } from './api.ts';
import { packArchive } from './archive.ts';
import { prepareBackup } from './export.ts';

export function backupHandlers(deps: Deps, blobs: Pick<BlobClient, 'stat' | 'get'>): Handler[] {
  return [
    handle(backups.download, async ({ body, signal }) => {
      const { store, settings, now } = deps;
      const source = { store, blobs, settings, clusterId: clusterIdOf(deps), now };
      const { manifest, open } = await prepareBackup(source, { signal, ...body });
      return { body: packArchive(manifest, open), headers: { 'content-type': 'application/x-tar' } };
    }),
  ];
}

/** Tells clusters apart, and says nothing of the key it is made of. */
function clusterIdOf({ runnerKey }: Pick<Deps, 'runnerKey'>): string {
  return createHash('sha256').update(`flynn cluster id: ${runnerKey}`).digest('hex').slice(0, 16);
}
