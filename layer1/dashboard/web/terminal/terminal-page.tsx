/** A terminal: in a new container of the live release, or beside an instance that runs. Its screen is loaded when it is opened. */
import type { ComponentType } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { asFailure } from '../api/failure.ts';
import { Empty, FailureNotice, Reading } from '../parts/notices.tsx';
import type { Failure } from '../api/failure.ts';
import type { AppView } from '../world/app-state.ts';
import { commandOf, type TerminalTarget } from './session.ts';

type Screen = ComponentType<{ target: TerminalTarget; onEnd: () => void }>;

export function TerminalPage({ view }: { view: AppView }) {
  const { app, jobs } = view;
  const [where, setWhere] = useState('');
  const [command, setCommand] = useState('');
  const [target, setTarget] = useState<{ opened: number; target: TerminalTarget } | undefined>();
  const ids = { where: useId(), command: useId() };
  if (app.releaseId === undefined) return <Empty title="Nothing is deployed yet: there is nothing to run." />;
  const running = jobs.filter(({ state }) => state === 'running');
  const submit = (event: Event) => {
    event.preventDefault();
    const line = commandOf(command);
    const wanted: TerminalTarget =
      where === ''
        ? { is: 'run', app: app.name, command: line }
        : { is: 'exec', app: app.name, job: where, command: line };
    setTarget({ opened: Date.now(), target: wanted });
  };
  return (
    <>
      <form class="filters" onSubmit={submit}>
        <span>
          <label for={ids.where}>Where</label>
          <select id={ids.where} value={where} onChange={(event) => setWhere(event.currentTarget.value)}>
            <option value="">in a new container</option>
            {running.map((job) => (
              <option key={job.id} value={job.id}>
                in {job.type} {job.id.slice(-6)} on {job.hostId ?? '?'}
              </option>
            ))}
          </select>
        </span>
        <span class="grow">
          <label for={ids.command}>Command</label>
          <input
            id={ids.command}
            value={command}
            placeholder="a shell"
            spellcheck={false}
            autoComplete="off"
            autoCapitalize="off"
            onInput={(event) => setCommand(event.currentTarget.value)}
          />
        </span>
        <button type="submit" class="main">
          {target === undefined ? 'Open' : 'Open another'}
        </button>
      </form>
      {target === undefined ? (
        <p class="dim">
          A new container has the code and the variables of the live release, and goes when the command ends or this
          page is left. In an instance the command runs beside what is there.
        </p>
      ) : (
        <LoadedScreen key={target.opened} target={target.target} onEnd={() => setTarget(undefined)} />
      )}
    </>
  );
}

/** xterm is larger than all other pages together. */
function LoadedScreen(props: { target: TerminalTarget; onEnd: () => void }) {
  const [loaded, setLoaded] = useState<{ screen: Screen } | { failure: Failure } | undefined>();
  useEffect(() => {
    import('./screen.tsx')
      .then(({ TerminalScreen }) => setLoaded({ screen: TerminalScreen }))
      .catch((error: unknown) => setLoaded({ failure: asFailure(error) }));
  }, []);
  if (loaded === undefined) return <Reading what="the terminal" />;
  if ('failure' in loaded) return <FailureNotice failure={loaded.failure} />;
  const { screen: Screen } = loaded;
  return <Screen {...props} />;
}
