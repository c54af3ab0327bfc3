/** Having something made by a provider for an app: a database, mostly. What there is to be had the API says. */
import { useId, useState } from 'preact/hooks';
import { datastoreName, isApplianceUrl, maxMembers, maxNames } from '@flynn/controller/datastores/names';
import type { providers, resources } from '@flynn/controller/providers/api';
import type { Provider } from '@flynn/controller/providers/model';
import type { App } from '@flynn/controller/model';
import { useAction, useLoaded } from '../parts/loading.ts';
import { DoingNotice, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices, useWorld } from '../parts/services.ts';

/** The answer may take 25 s, and the way there. */
const createMs = 60_000;

/** The platform's own have members with so much memory each; what others are to be told the command says. */
function isOwnKind({ url }: Provider): boolean {
  return isApplianceUrl(url);
}

/** `onAsked` is told when it begins, too: it is in the list while it is made. */
export function NewResource({ app, onAsked }: { app: App; onAsked: (isUnderWay: boolean) => void }) {
  const { api } = useServices();
  const { loaded, reload } = useLoaded(app.id, (signal) =>
    api.call<typeof providers.list>('GET /providers', { query: {} }, { signal }),
  );
  return (
    <Section title="Add">
      <Shown loaded={loaded} what="what there is to be had" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <p class="dim">
              No provider gives anything here: <code>flynn provider add --help</code>
            </p>
          ) : (
            <Form app={app} found={found} onAsked={onAsked} />
          )
        }
      </Shown>
    </Section>
  );
}

function Form(props: { app: App; found: readonly Provider[]; onAsked: (isUnderWay: boolean) => void }) {
  const { app, found, onAsked } = props;
  const { api } = useServices();
  const world = useWorld();
  const ids = { kind: useId(), members: useId(), memory: useId() };
  const [chosen, setChosen] = useState('');
  const [members, setMembers] = useState('');
  const [memory, setMemory] = useState('');
  const provider = found.find(({ name }) => name === chosen) ?? found.find(isOwnKind) ?? found[0];
  const { doing, run } = useAction(async (once, name: string, config: Record<string, string>) => {
    onAsked(true);
    try {
      const body = { config, apps: [app.name], isReplacing: false };
      const input = { params: { provider: name }, body };
      const options = { once, timeoutMs: createMs };
      await api.call<typeof resources.create>('POST /providers/:provider/resources', input, options);
      setMembers('');
      setMemory('');
    } finally {
      onAsked(false);
    }
  });
  if (provider === undefined) return null;
  const isOwn = isOwnKind(provider);
  const isPending = doing.is === 'pending';
  const submit = (event: Event) => {
    event.preventDefault();
    const said = isOwn ? { members: members.trim(), memory: memory.trim() } : {};
    void run(provider.name, Object.fromEntries(Object.entries(said).filter(([, value]) => value !== '')));
  };
  return (
    <form class="filters" onSubmit={submit}>
      <span>
        <label for={ids.kind}>Kind</label>
        <select id={ids.kind} value={provider.name} onChange={(event) => setChosen(event.currentTarget.value)}>
          {found.map(({ id, name }) => (
            <option key={id} value={name}>
              {name}
            </option>
          ))}
        </select>
      </span>
      {isOwn ? (
        <>
          <span>
            <label for={ids.members}>Members</label>
            <input
              id={ids.members}
              type="number"
              min={1}
              max={maxMembers}
              value={members}
              placeholder="auto"
              onInput={(event) => setMembers(event.currentTarget.value)}
            />
          </span>
          <span>
            <label for={ids.memory}>Memory of each</label>
            <input
              id={ids.memory}
              value={memory}
              placeholder="auto, or 1GB"
              pattern="[1-9][0-9]*(MB|GB)"
              title="512MB or 2GB"
              onInput={(event) => setMemory(event.currentTarget.value)}
            />
          </span>
        </>
      ) : null}
      <button type="submit" class="plain" disabled={isPending} aria-busy={isPending}>
        {isPending ? 'Adding …' : 'Add'}
      </button>
      <p class="dim grow">
        {isOwn ? (
          <>
            It will be called{' '}
            <strong>{nameFor(provider.name, app.name, (name) => world.app(name) !== undefined)}</strong>. Each member is
            on another host; two where there are two.{' '}
          </>
        ) : null}
        Its variables are a release of {app.name}, which is rolled out.
      </p>
      <DoingNotice doing={doing} />
    </form>
  );
}

/** As the controller calls it, where nobody else is quicker; names that the caller does not see may be taken. */
function nameFor(kind: string, owner: string, isTaken: (name: string) => boolean): string {
  const names = Array.from({ length: maxNames }, (_, index) => datastoreName(kind, { owner }, index + 1));
  return names.find((name) => !isTaken(name)) ?? `${owner}-${kind}`;
}
