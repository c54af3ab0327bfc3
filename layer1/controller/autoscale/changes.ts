/** A count that is changed by what there is to do: as a person would change it, and told as such. */
import type { Piece } from '@flynn/resource/piece';
import { writePiece } from '@flynn/resource/piece';
import type { Compare } from '@flynn/store/store';
import type { AuditEntry } from '../audit/model.ts';
import { keyOfId } from '../audit/trail.ts';
import type { Deps } from '../deps.ts';
import { scaleOnce } from '../formations/formations.ts';
import { iso } from '../jobs/views.ts';
import { statusWithChange } from './report.ts';
import type { Change } from './report.ts';
import { autoscaleType } from './resource.ts';
import type { Subject } from './subject.ts';

/** Who it is in the audit trail. */
const actor = { kind: 'service', name: 'autoscale' } as const;

/** All of it in one transaction. `conflict` if the setting, the formation, the app or the seat is another by now. */
export async function changeCount(
  deps: Deps,
  subject: Subject,
  { change, epoch, signal }: { change: Change; epoch: readonly Compare[]; signal: AbortSignal },
): Promise<void> {
  const { setting, app, release, formation } = subject;
  const { type } = setting.spec;
  const { from, to } = change;
  const status = statusWithChange(setting.status, change);
  const why = status.last?.why ?? '';
  const entry = entryOf(subject, { id: deps.newId(), change, why });
  const also: Piece[] = [
    writePiece(autoscaleType, setting, { ...setting, status }),
    { compare: epoch, then: [{ put: keyOfId(entry.id), value: JSON.stringify(entry) }] },
  ];
  const scaling = { app: app.id, release: release.id, counts: { [type]: to }, revision: formation.revision, also };
  await scaleOnce(deps, scaling, signal);
  deps.log.info({ app: app.spec.name, type, from, to, why }, 'scaled');
}

function entryOf(
  { setting, app, formation }: Subject,
  { id, change, why }: { id: string; change: Change; why: string },
): AuditEntry {
  const { type } = setting.spec;
  const { processes } = formation.spec;
  const after = { processes: { ...processes, [type]: change.to } };
  return {
    id,
    at: iso(change.nowMs),
    requestId: id,
    actor,
    action: 'scale :app :count: :why',
    params: { app: app.spec.name, count: `${type}=${change.to}`, why },
    app: { id: app.id, name: app.spec.name },
    from: { address: '' },
    outcome: 'done',
    changes: [{ type: 'formation', id: formation.id, action: 'update', before: { processes }, after }],
  };
}
