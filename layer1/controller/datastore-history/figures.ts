/** Histories of datastores as figures, of mirrors that are followed. */
import type { Metrics, Sample } from '@flynn/kit/metrics';
import type { ResourceService } from '@flynn/resource/service';
import { valuesOf } from '../mirrors/cell-view.ts';
import { allPieces } from './pieces.ts';
import { rangesOf } from './ranges.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, HistoryStatus } from './types.ts';

/** Resolves once it knows them. */
export async function historyFigures(resources: ResourceService, metrics: Metrics): Promise<AsyncDisposable> {
  const histories = await resources.mirror(historyType);
  const archives = await resources.mirror(archiveType);
  const each = (read: (archive: Archive, status: HistoryStatus) => number | undefined): Sample[] => {
    const own = new Map(valuesOf(archives).map(({ id, status }) => [id, status]));
    return valuesOf(histories).flatMap(({ id, spec, status }) => {
      const value = read(own.get(id) ?? { bases: [], pieces: [] }, status);
      return value === undefined ? [] : [{ labels: { datastore: spec.datastore }, value }];
    });
  };
  const name = (rest: string) => `flynn_cluster_datastore_history_${rest}`;
  metrics.gauge(
    name('from_seconds'),
    'The moment from which on each datastore can be gone back to, without a gap.',
    () => each((archive, status) => secondsOf(rangesOf(archive, status).at(-1)?.fromMs)),
  );
  metrics.gauge(name('until_seconds'), 'The newest moment that it can be gone back to.', () =>
    each((archive, status) => secondsOf(rangesOf(archive, status).at(-1)?.untilMs)),
  );
  metrics.gauge(name('bytes'), 'What is kept for that.', () =>
    each((archive, status) =>
      [...archive.bases, ...allPieces(archive, status)].reduce((sum, { blobBytes }) => sum + blobBytes, 0),
    ),
  );
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([histories, archives].map((mirror) => mirror[Symbol.asyncDispose]()));
    },
  };
}

function secondsOf(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1_000;
}
