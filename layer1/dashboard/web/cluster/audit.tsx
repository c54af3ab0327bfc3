/** Who changed what. */
import { useId, useState } from 'preact/hooks';
import type { audit } from '@flynn/controller/audit/api';
import type { AuditEntry } from '@flynn/controller/audit/model';
import { Badge } from '../parts/badge.tsx';
import { useAction, useLoaded } from '../parts/loading.ts';
import { DoingNotice, Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';
import { actionText } from './audit-text.ts';

/** Most of what there is the platform's parts did, and is of no interest. */
const pageSize = 200;

export function AuditTrail() {
  const { api } = useServices();
  const [typed, setTyped] = useState({ app: '', user: '' });
  const [asked, setAsked] = useState(typed);
  const [older, setOlder] = useState<readonly AuditEntry[]>([]);
  const [isAll, setIsAll] = useState(false);
  const [hasParts, setHasParts] = useState(false);
  const ids = { app: useId(), user: useId() };
  const read = (before: string | undefined, signal?: AbortSignal) =>
    api.call<typeof audit.list>(
      'GET /audit',
      {
        query: {
          limit: pageSize,
          ...(asked.app === '' ? {} : { app: asked.app }),
          ...(asked.user === '' ? {} : { user: asked.user }),
          ...(before === undefined ? {} : { before }),
        },
      },
      signal === undefined ? {} : { signal },
    );
  const { loaded, reload } = useLoaded(JSON.stringify(asked), (signal) => read(undefined, signal));
  const { doing, run } = useAction(async (_once, before: string) => {
    const found = await read(before);
    setOlder((known) => [...known, ...found]);
    setIsAll(found.length < pageSize);
  });
  const submit = (event: Event) => {
    event.preventDefault();
    setOlder([]);
    setIsAll(false);
    setAsked({ app: typed.app.trim(), user: typed.user.trim() });
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <span>
          <label for={ids.app}>App</label>
          <input
            id={ids.app}
            value={typed.app}
            onInput={(event) => setTyped({ ...typed, app: event.currentTarget.value })}
          />
        </span>
        <span>
          <label for={ids.user}>User</label>
          <input
            id={ids.user}
            value={typed.user}
            onInput={(event) => setTyped({ ...typed, user: event.currentTarget.value })}
          />
        </span>
        <button type="submit" class="plain">
          Look
        </button>
        <label class="check">
          <input type="checkbox" checked={hasParts} onChange={(event) => setHasParts(event.currentTarget.checked)} />
          what the platform's parts did, too
        </label>
      </form>
      <Shown loaded={loaded} what="the audit trail" reload={reload}>
        {(newest) => {
          const all = [...newest, ...older];
          const last = all.at(-1);
          const shown = hasParts ? all : all.filter(({ actor }) => actor.kind !== 'service');
          if (last === undefined) return <Empty title="Nothing of that was changed." />;
          return (
            <>
              <Table caption="Audit trail" head={['When', 'Who', 'What', 'Outcome', '-From']}>
                {shown.map((entry) => (
                  <Row key={entry.id} entry={entry} />
                ))}
              </Table>
              {isAll || newest.length < pageSize ? null : (
                <p class="buttons">
                  <button
                    type="button"
                    class="plain"
                    disabled={doing.is === 'pending'}
                    onClick={() => void run(last.id)}
                  >
                    Older ones
                  </button>
                </p>
              )}
              <DoingNotice doing={doing} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const { at, actor, action, params, app, from, outcome, error, count = 1 } = entry;
  const isRefused = outcome !== 'done' && outcome !== 'unchanged';
  return (
    <tr>
      <th scope="row">
        <Time at={at} />
      </th>
      <td>{actor.name}</td>
      <td class="words" title={`${action} (${entry.requestId})`}>
        {actionText(action, app?.name === undefined ? params : { ...params, app: app.name })}
      </td>
      <td>
        <Badge tone={isRefused ? 'bad' : 'quiet'}>{outcome}</Badge>
        {count === 1 ? null : <span class="note"> {count} times</span>}
        {error === undefined ? null : <p class="note words">{error}</p>}
      </td>
      <td class="wide" title={from.userAgent}>
        {from.address}
      </td>
    </tr>
  );
}
