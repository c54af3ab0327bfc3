/** The kind Notification: who is told what goes wrong. Without an owner it is of the cluster. */
import { refusal } from '@flynn/resource/record';
import { z } from 'zod';
import { hiddenValue } from '../access/redaction.ts';
import type { Deps } from '../deps.ts';
import { differences } from '../generic/difference.ts';
import { defineKind } from '../generic/kind.ts';
import type { Applied, ApplyContext, Wanted } from '../generic/kind.ts';
import { checkOwner } from '../generic/plain.ts';
import { wantedFields } from './api.ts';
import { delivering, watching } from './controllers.ts';
import { anew } from './queue.ts';
import { addNotification, specOf } from './settings.ts';
import { statusOf, urlShown } from './shown.ts';
import { signingSecretSchema } from './signature.ts';
import { notificationType } from './types.ts';
import type { NotificationResource, NotificationSpec } from './types.ts';

const wantedSchema = z.strictObject({
  ...wantedFields,
  /** A new one has to have it; as it is shown, it stays. */
  url: wantedFields.url.optional(),
  /** Left out, or as it is shown, it stays; of a new one it is made, and told once. */
  secret: z.union([signingSecretSchema, z.literal(hiddenValue)]).optional(),
});

export const notificationKind = defineKind({
  type: notificationType,
  summary: 'who is told what goes wrong: flynn notification; its address and its secret are not told',
  columns: { APP: 'owner', URL: 'spec.url', FORMAT: 'spec.format', ON: 'spec.on', WAITING: 'status.waiting' },
  wanted: wantedSchema,
  // Without the secrets of its address it is not the same elsewhere.
  isExported: false,
  async view(_deps, { spec, status: { waiting, failing, lost } }) {
    // What a program inside of the cluster answers, admins read in the log.
    const said = spec.isInside ? statusOf : (answer: string) => answer;
    return {
      spec: specShown(spec),
      status: {
        waiting: waiting.length,
        ...(failing === undefined ? {} : { failing: { since: failing.since, answer: said(failing.answer) } }),
        ...(lost === undefined
          ? {}
          : { lost: { ...lost, ...(lost.answer !== undefined && { answer: said(lost.answer) }) } }),
      },
    };
  },
  apply,
  controllers: [watching, delivering],
});

function specShown({ url, format, on, severity, everyMinutes, isInside }: NotificationSpec) {
  return { url: urlShown(url), format, on: [...on], severity, everyMinutes, isInside, secret: hiddenValue };
}

async function apply(
  deps: Deps,
  { name, owner, labels, revision, spec }: Wanted<z.output<typeof wantedSchema>>,
  { isDryRun, signal, principal, current }: ApplyContext<NotificationResource>,
): Promise<Applied> {
  if (name === undefined) throw refusal('notification', [{ path: 'name', message: 'a notification has a name' }]);
  const what = `notification ${name}`;
  if (owner !== undefined && owner.type !== 'app') {
    throw refusal(what, [{ path: 'owner', message: 'it is an app’s, owner: app/NAME, or the cluster’s without one' }]);
  }
  if (current === undefined && spec.secret === hiddenValue) {
    throw refusal(what, [{ path: 'secret', message: 'this is how it is shown: leave it out, or give one' }]);
  }
  if (current !== undefined) checkOwner(name, current, owner);
  const { secret, ...rest } = spec;
  const appId = current === undefined ? owner?.id : current.spec.appId;
  const given = secret === undefined || secret === hiddenValue ? {} : { secret };
  const next = await specOf(
    deps,
    current?.spec.name ?? name,
    { ...rest, ...given },
    { appId, current: current?.spec, principal, signal },
  );
  deps.resources.draft(notificationType, { spec: next });
  if (current === undefined) {
    const changes = differences({}, { labels: labels ?? {}, spec: specShown(next) });
    if (isDryRun) return { name, isNew: true, changes };
    await addNotification(deps, { spec: next, labels }, signal);
    const notes = secret === undefined ? [`its messages are signed with ${next.secret}: this is told once`] : [];
    return { name, isNew: true, changes, notes };
  }
  const after = labels ?? current.labels;
  const before = { labels: current.labels, spec: specShown(current.spec) };
  const changes = [...differences(before, { labels: after, spec: specShown(next) })];
  const hidden = ['url', 'secret'] as const;
  for (const field of hidden) {
    const isTold = changes.some(({ path }) => path === `spec.${field}`);
    if (current.spec[field] !== next[field] && !isTold) {
      changes.push({ path: `spec.${field}`, before: hiddenValue, after: '[hidden, changed]' });
    }
  }
  if (!isDryRun && changes.length > 0) {
    const expected = revision === undefined ? {} : { expectRevision: revision };
    // What was heard of another address says nothing of this one.
    const isMoved = (['url', 'secret', 'format'] as const).some((field) => current.spec[field] !== next[field]);
    const changed = ({ status }: NotificationResource) => ({
      labels: after,
      spec: next,
      ...(isMoved ? { status: anew(status) } : {}),
    });
    await deps.resources.change(notificationType, current.id, changed, { signal, ...expected });
  }
  return { name, isNew: false, changes };
}
