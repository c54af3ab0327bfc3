/** Long-lived connections to Docker: events, and a container's standard streams. */
import type { Duplex } from 'node:stream';
import { constants } from 'node:os';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Attachment, Engine, EngineEvent, ExtraProcess } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall, engineError } from './errors.ts';
import { demux, undivided } from './logs.ts';
import { label } from '../engine/labels.ts';

/** Its output is through: the engine is about to know. */
const exitDeadlineMs = 30_000;
const startDeadlineMs = 30_000;

const typeOfAction: Readonly<Record<string, EngineEvent['type']>> = {
  start: 'started',
  die: 'ended',
  oom: 'out_of_memory',
  destroy: 'removed',
};

type DockerEvent = { Type?: string; Action?: string; Actor?: { ID?: string } };

export function eventOf(line: string): EngineEvent | undefined {
  const { Type, Action = '', Actor } = JSON.parse(line) as DockerEvent;
  const type = Object.hasOwn(typeOfAction, Action) ? typeOfAction[Action] : undefined;
  return Type === 'container' && type !== undefined && Actor?.ID !== undefined
    ? { type, containerId: Actor.ID }
    : undefined;
}

export async function* readEvents(
  { docker, cluster }: DockerContext,
  signal: AbortSignal,
): AsyncGenerator<EngineEvent> {
  const filters = {
    type: ['container'],
    event: Object.keys(typeOfAction),
    label: [`${label.cluster}=${cluster}`],
  };
  // The engine answers a moment before it subscribes; looking back a second closes that gap.
  const since = Math.floor(Date.now() / 1000) - 1;
  try {
    const request = { filters: JSON.stringify(filters), since, abortSignal: signal };
    const stream = await docker.getEvents(request);
    let rest = '';
    for await (const chunk of stream) {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        const event = line.trim() === '' ? undefined : eventOf(line);
        if (event !== undefined) yield event;
      }
    }
  } catch (error) {
    if (!signal.aborted) throw engineError(error, "listening to the engine's events");
  }
}

export async function openAttachment(
  { docker }: DockerContext,
  id: string,
  options: { stdin: boolean; logs: boolean; tty: boolean; signal?: AbortSignal },
): Promise<Attachment> {
  const request = { stream: true, stdout: true, stderr: true, hijack: true, stdin: true, logs: options.logs };
  const stream = await engineCall(
    `attaching to container ${id}`,
    // Always hijacked, with or without stdin: a response that is only read cannot tell its end from a break.
    () => docker.getContainer(id).attach({ ...request, stdin: options.stdin }),
    options,
  );
  return attachmentOf(stream as Duplex, options.tty);
}

function attachmentOf(socket: Duplex, tty: boolean): Attachment {
  // Errors show on the reading side; without a listener a late one would end the agent.
  socket.on('error', () => undefined);
  const close = () => void socket.destroy();
  return {
    output: tty ? undivided(socket) : demux(socket),
    write(data) {
      if (!socket.writable)
        return Promise.reject(new FlynnError('unavailable', 'the process no longer reads its input'));
      return new Promise((resolve, reject) => {
        socket.write(data, (error) => (error ? reject(engineError(error, 'writing to the process')) : resolve()));
      });
    },
    endInput: () => void socket.end(),
    close,
    [Symbol.dispose]: close,
  };
}

/** The program runs as `execve` takes it; the engine knows its end only when it is asked. */
export async function openExec(
  { docker }: DockerContext,
  id: string,
  options: Parameters<Engine['exec']>[1],
): Promise<ExtraProcess> {
  const { command, env = {}, tty, stdin } = options;
  const what = `running ${command[0] ?? 'nothing'} in container ${id}`;
  const exec = await engineCall(
    what,
    (abortSignal) =>
      docker.getContainer(id).exec({
        Cmd: [...command],
        Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
        AttachStdin: stdin,
        AttachStdout: true,
        AttachStderr: true,
        Tty: tty,
        abortSignal,
      }),
    options,
  );
  const stream = await engineCall(what, () => exec.start({ hijack: true, stdin: true, Tty: tty }), options);
  const inspect = () => engineCall(`looking at ${what}`, (abortSignal) => exec.inspect({ abortSignal }));
  return {
    ...attachmentOf(stream, tty),
    async exitCode() {
      const ended = await waitFor(
        async () => {
          const { Running, ExitCode } = await inspect();
          return Running ? undefined : { code: ExitCode ?? 0 };
        },
        { what: `the exit of ${command[0] ?? 'the process'}`, deadlineMs: exitDeadlineMs, intervalMs: 20 },
      );
      return ended.code;
    },
    async resize({ columns, rows }) {
      await engineCall(`resizing the terminal of ${what}`, (abortSignal) =>
        exec.resize({ w: columns, h: rows, abortSignal }),
      );
    },
    async signal(name) {
      // Its output may be here a moment before the engine knows its pid; without one it would miss the signal.
      const { pid } = await waitFor(
        async () => {
          const { Running, Pid } = await inspect();
          return Running && Pid === 0 ? undefined : { pid: Running ? Pid : undefined };
        },
        { what: `the start of ${command[0] ?? 'the process'}`, deadlineMs: startDeadlineMs, intervalMs: 20 },
      );
      if (pid !== undefined) signalProcess(pid, name);
    },
  };
}

/** The engine signals containers only; their processes are processes of this machine too. */
function signalProcess(pid: number, name: string): void {
  const known = Object.keys(constants.signals).find((one): one is NodeJS.Signals => one === name);
  if (known === undefined) throw new FlynnError('invalid', `there is no signal ${name}`);
  try {
    process.kill(pid, known);
  } catch (error) {
    // It ended at this moment.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
