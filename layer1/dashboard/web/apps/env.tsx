/** An app's variables: names first, values when somebody asks, edits as one release. */
import { useEffect, useId, useState } from 'preact/hooks';
import type { App, Release } from '@flynn/controller/model';
import { Question } from '../parts/acts.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { type AppView, isUnderWay } from '../world/app-state.ts';
import { mayChange, mayReadValues } from '../world/abilities.ts';
import {
  changeOf,
  drafted,
  type EnvChange,
  type EnvEdit,
  isEmpty,
  nameProblem,
  noDraft,
  overtaken,
  pastedOf,
  takenBack,
  type Values,
} from './env-change.ts';
import { changeEnv, readBasis } from './release-change.ts';

export function EnvPage({ view }: { view: AppView }) {
  const { app } = view;
  const { api } = useServices();
  const { loaded, reload } = useLoaded(app.id, (signal) => readBasis(api, app.name, signal), app.releaseId);
  return (
    <Shown loaded={loaded} what="variables" reload={reload}>
      {({ release }) => <EnvEditor app={app} release={release} isBusy={isUnderWay(view.deployment)} onSaved={reload} />}
    </Shown>
  );
}

function EnvEditor(props: { app: App; release: Release | undefined; isBusy: boolean; onSaved: () => void }) {
  const { app, release, isBusy, onSaved } = props;
  const { api, session, go, edits } = useServices();
  const [draft, setDraft] = useState(edits.get(app.id) ?? noDraft);
  useEffect(() => void edits.set(app.id, draft), [edits, app.id, draft]);
  const [isAsking, setIsAsking] = useState(false);
  const isOwn = mayChange(app, session.identity);
  const before = release?.env ?? {};
  const { edit } = draft;
  const change = changeOf(before, edit);
  const theirs = overtaken(draft, before);
  const put = (more: EnvEdit) => setDraft((known) => drafted(known, before, more));
  const names = [...new Set([...Object.keys(before), ...Object.keys(edit)])].toSorted();
  const save = async (once: string) => {
    const { deployment } = await changeEnv(api, app.name, edit, once);
    edits.delete(app.id);
    setDraft(noDraft);
    if (deployment === undefined) onSaved();
    else go({ is: 'app', name: app.name, tab: 'deployments', item: deployment.id });
  };
  return (
    <>
      {names.length === 0 ? (
        <Empty title="No variable is set.">
          <Commands lines={[`flynn -a ${app.name} env set NAME=VALUE`]} />
        </Empty>
      ) : (
        <Table caption={`Variables of ${app.name}`} head={['Name', 'Value', ...(isOwn ? ['Actions'] : [])]}>
          {names.map((name) => (
            <EnvRow
              key={name}
              app={app}
              name={name}
              value={before[name]}
              reference={release?.references?.[name]}
              wanted={edit[name]}
              isTheirs={theirs.includes(name)}
              onPut={(value) => put({ [name]: value })}
              onTakeBack={() => setDraft((known) => takenBack(known, name))}
            />
          ))}
        </Table>
      )}
      {isOwn ? <NewVariables onAdd={put} /> : null}
      {isEmpty(change) ? null : (
        <div class="save-bar">
          <span role="status">
            {changeText(change)}
            {isBusy ? <span class="dim">, to be saved once the deployment under way has ended</span> : null}
          </span>
          <span class="buttons">
            <button type="button" class="plain" onClick={() => setDraft(noDraft)}>
              Discard
            </button>
            <button type="button" class="main" disabled={isBusy} onClick={() => setIsAsking(true)}>
              Save and deploy …
            </button>
          </span>
        </div>
      )}
      {isAsking ? (
        <Question
          title={`Change the variables of ${app.name}?`}
          confirm="Save and deploy"
          isDanger={change.removed.length > 0}
          act={save}
          onClose={() => setIsAsking(false)}
        >
          <ChangeList change={change} />
          {theirs.length === 0 ? null : (
            <p class="short">
              Somebody else has changed {theirs.join(', ')} since you began: yours is in its place then.
            </p>
          )}
          <p class="dim">
            This makes a release and deploys it: processes are replaced one after the other. If the new ones do not come
            up, the live release stays.
          </p>
        </Question>
      ) : null}
    </>
  );
}

function EnvRow(props: {
  app: App;
  name: string;
  value: string | undefined;
  reference: string | undefined;
  wanted: string | null | undefined;
  /** Somebody else has changed it since it was edited here. */
  isTheirs: boolean;
  onPut: (value: string | null) => void;
  onTakeBack: () => void;
}) {
  const { app, name, value, reference, wanted, isTheirs, onPut, onTakeBack } = props;
  const { session } = useServices();
  const [isShown, setIsShown] = useState(false);
  const [isEdited, setIsEdited] = useState(false);
  const isOwn = mayChange(app, session.identity);
  const isReadable = mayReadValues(app, session.identity);
  const current = wanted ?? value ?? '';
  const mark =
    wanted === null
      ? 'goes'
      : wanted === undefined || wanted === value
        ? undefined
        : value === undefined
          ? 'new'
          : 'changed';
  return (
    <tr class={mark === undefined ? undefined : `edit-${mark}`}>
      <th scope="row">
        <code class="name">{name}</code>
        {mark === undefined ? null : <span class="dim"> {mark}</span>}
      </th>
      <td class="value">
        {isEdited ? (
          <textarea
            aria-label={`Value of ${name}`}
            rows={Math.min(8, current.split('\n').length)}
            value={current}
            spellcheck={false}
            autoComplete="off"
            onInput={(event) => onPut(event.currentTarget.value)}
          />
        ) : isShown || (wanted !== undefined && wanted !== null) ? (
          <code class="words">{current === '' ? <span class="dim">(empty)</span> : current}</code>
        ) : isReadable ? (
          <button type="button" class="quiet" aria-label={`Show the value of ${name}`} onClick={() => setIsShown(true)}>
            •••••• show
          </button>
        ) : (
          <span class="dim">for developers of the app</span>
        )}
        {isTheirs ? <p class="note">changed by somebody else since: Undo shows theirs</p> : null}
        {reference === undefined ? null : (
          <p class="note">
            refers to others: <code class="words">{reference}</code>
          </p>
        )}
      </td>
      {isOwn ? (
        <td class="row-acts">
          {isShown && !isEdited ? (
            <button type="button" class="plain" aria-label={`Hide ${name}`} onClick={() => setIsShown(false)}>
              Hide
            </button>
          ) : null}
          {wanted === undefined ? null : (
            <button
              type="button"
              class="plain"
              aria-label={`Leave ${name} as it was`}
              onClick={() => {
                onTakeBack();
                setIsEdited(false);
              }}
            >
              Undo
            </button>
          )}
          {isEdited || wanted === null ? null : (
            <button type="button" class="plain" aria-label={`Edit ${name}`} onClick={() => setIsEdited(true)}>
              Edit
            </button>
          )}
          {value === undefined || wanted === null ? null : (
            <button
              type="button"
              class="plain"
              aria-label={`Remove ${name}`}
              onClick={() => {
                setIsEdited(false);
                onPut(null);
              }}
            >
              Remove
            </button>
          )}
        </td>
      ) : null}
    </tr>
  );
}

/** One by one, or many lines of a .env file at once. */
function NewVariables({ onAdd }: { onAdd: (values: Values) => void }) {
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [refused, setRefused] = useState<string | undefined>();
  const ids = { name: useId(), value: useId(), problem: useId() };
  const problem = name === '' ? undefined : nameProblem(name);
  const paste = (event: ClipboardEvent) => {
    const pasted = pastedOf(event.clipboardData?.getData('text/plain') ?? '');
    setRefused(pasted.is === 'wrong' ? `Nothing of what was pasted is taken: ${pasted.problem}` : undefined);
    if (pasted.is === 'name') return;
    event.preventDefault();
    if (pasted.is === 'read') onAdd(pasted.values);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (name === '' || problem !== undefined) return;
    onAdd({ [name]: value });
    setName('');
    setValue('');
    setRefused(undefined);
  };
  return (
    <form class="new-variable" onSubmit={submit}>
      <span>
        <label for={ids.name}>Name</label>
        <input
          id={ids.name}
          value={name}
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          placeholder="NAME, or paste lines of a .env file"
          aria-describedby={ids.problem}
          aria-invalid={problem !== undefined}
          onPaste={paste}
          onInput={(event) => {
            setName(event.currentTarget.value);
            setRefused(undefined);
          }}
        />
      </span>
      <span>
        <label for={ids.value}>Value</label>
        <textarea
          id={ids.value}
          rows={1}
          value={value}
          spellcheck={false}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </span>
      <button type="submit" class="plain" disabled={name === '' || problem !== undefined}>
        Add
      </button>
      <p id={ids.problem} class="short" role="status">
        {problem ?? refused}
      </p>
    </form>
  );
}

function ChangeList({ change }: { change: EnvChange }) {
  const parts = [
    ['Set anew', change.added],
    ['Changed', change.changed],
    ['Removed', change.removed],
  ] as const;
  return (
    <dl class="changes">
      {parts.map(([title, names]) =>
        names.length === 0 ? null : (
          <>
            <dt>{title}</dt>
            <dd class={title === 'Removed' ? 'short' : undefined}>{names.join(', ')}</dd>
          </>
        ),
      )}
    </dl>
  );
}

function changeText({ added, changed, removed }: EnvChange): string {
  const parts = [
    [added.length, 'new'],
    [changed.length, 'changed'],
    [removed.length, 'removed'],
  ] as const;
  return parts.flatMap(([count, what]) => (count === 0 ? [] : [`${count} ${what}`])).join(', ');
}
