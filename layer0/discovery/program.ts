/** The commands of `flynn-discovery`, and errors told to people. */
import { readFile } from 'node:fs/promises';
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { runAnnounced } from './announce-command.ts';
import { registrationSchema } from './api.ts';
import type { DiscoveryEvent, Instance } from './api.ts';
import { createDiscoveryClient } from './client.ts';
import type { DiscoveryClient } from './client.ts';
import { checkRegistration } from './registration.ts';
import { keepRendered, renderOnce } from './render.ts';
import { serve } from './serve-command.ts';
import { compileTemplate } from './template.ts';

export type CliIo = {
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
  env: NodeJS.ProcessEnv;
  hostname: string;
  log: Logger;
  onSignal: (signal: NodeJS.Signals, listener: () => void) => () => void;
};

type MetaOptions = { version?: number; leader?: string; remove?: true };

/** How long `render --once` waits for discovery. */
const onceMs = 30_000;

/** Answers the exit code: 0, 1 for what went wrong, 2 for wrong usage, or that of the program `register` ran. */
export async function runCli(argv: readonly string[], io: CliIo): Promise<number> {
  let exitCode = 0;
  const stop = new AbortController();
  const print = (line: string) => void io.stdout.write(`${line}\n`);
  const say = (line: string) => void io.stderr.write(`flynn-discovery: ${line}\n`);
  const failWith = (line: string) => {
    say(line);
    exitCode = 1;
  };
  const program = new Command('flynn-discovery')
    .description('who answers where: service discovery from the shell')
    .option(
      '--url <url>',
      'the discovery server',
      io.env['FLYNN_DISCOVERY_URL'] === undefined || io.env['FLYNN_DISCOVERY_URL'] === ''
        ? 'http://127.0.0.1:1111'
        : io.env['FLYNN_DISCOVERY_URL'],
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'flynn-discovery: ')),
    });

  const withClient = async (work: (client: DiscoveryClient) => Promise<void>) => {
    await using client = createDiscoveryClient({ url: z.string().parse(program.opts()['url']) });
    await work(client);
  };
  /** For what runs until it is told to stop. */
  const untilStopped = async (work: (signal: AbortSignal) => Promise<void>) => {
    const offs = (['SIGTERM', 'SIGINT'] as const).map((signal) => io.onSignal(signal, () => stop.abort()));
    try {
      await work(stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      for (const off of offs) off();
    }
  };

  program
    .command('services')
    .description('the services that have instances')
    .action(() =>
      withClient(async (client) => {
        for (const { name, instances } of await client.services()) print(`${name}  ${instances}`);
      }),
    );

  program
    .command('instances')
    .description('the instances of a service, oldest first')
    .argument('<service>')
    .option('--attr <name=value>', 'only those with the attribute; may be given several times', collect, {})
    .option('--json', 'everything there is to know, one object a line')
    .action((service: string, options: { attr: Record<string, string>; json?: true }) =>
      withClient(async (client) => {
        for (const instance of await client.instances(service, { where: options.attr })) {
          print(options.json === true ? JSON.stringify(instance) : lineOf(instance));
        }
      }),
    );

  program
    .command('watch')
    .description('the instances of a service, the end of the set, then every change; one JSON object a line')
    .argument('<service>')
    .action((service: string) =>
      untilStopped((signal) =>
        withClient(async (client) => {
          for await (const event of client.subscribe(service, { signal })) print(JSON.stringify(printable(event)));
        }),
      ),
    );

  program
    .command('leader')
    .description('the instance that leads a service; 1 if none does')
    .argument('<service>')
    .option('--choose <instance>', 'let this one lead from now on, whenever it is there')
    .option('--oldest', 'let the oldest lead again')
    .action((service: string, options: { choose?: string; oldest?: true }) =>
      withClient(async (client) => {
        if (options.choose !== undefined) {
          await client.chooseLeader(service, { by: 'manual', instance: options.choose });
        } else if (options.oldest === true) await client.chooseLeader(service, { by: 'oldest' });
        const leader = await client.leader(service);
        if (leader !== undefined) print(lineOf(leader));
        else failWith(`nobody leads ${service}`);
      }),
    );

  program
    .command('meta')
    .description('what the instances of a service share: prints version and document, or writes the document')
    .argument('<service>')
    .argument('[document]', 'JSON to write')
    .option('--version <n>', 'write only over this version; 0 creates only', wholeNumber)
    .option('--leader <instance>', 'choose the leader in the same step')
    .option('--remove', 'remove the document')
    .action((service: string, document: string | undefined, given: MetaOptions) =>
      withClient(async (client) => {
        const { remove, ...options } = given;
        if (remove === true) {
          if (document !== undefined || Object.keys(options).length > 0) {
            throw new FlynnError('invalid', '--remove stands alone: leave out the document and the other options');
          }
          return client.removeMeta(service);
        }
        const meta =
          document === undefined
            ? await client.meta(service)
            : await client.setMeta(service, { data: parseJson(document), ...options });
        if (meta !== undefined) print(`${meta.version}  ${JSON.stringify(meta.data)}`);
        else failWith(`nothing was written as the meta of ${service} yet`);
      }),
    );

  program
    .command('register')
    .description('announce an address: while the program runs, or until stopped')
    .argument('<service>')
    .argument('<address>', 'host:port')
    .argument('[command...]', 'behind --')
    .option('--id <id>', 'of the instance; default: from this host and the address')
    .option('--attr <name=value>', 'may be given several times', collect, {})
    .option('--ttl <seconds>', 'how long it stays when this process is gone', ttlSeconds, 10)
    .option('--drain <ms>', 'between taking it back and telling the program to stop', wholeNumber, 0)
    .action(
      (
        service: string,
        address: string,
        command: string[],
        options: { id?: string; attr: Record<string, string>; ttl: number; drain: number },
      ) =>
        withClient(async (client) => {
          const id = options.id ?? `${io.hostname}-${address}`.replaceAll(/[^A-Za-z0-9.-]+/g, '-').slice(0, 128);
          const registration = checkRegistration({ service, id, address, attributes: options.attr });
          const { ttl, drain: drainMs } = options;
          exitCode = await runAnnounced({ client, registration, ttlSeconds: ttl, drainMs, command, say, ...io });
        }),
    );

  program
    .command('render')
    .description("keep another program's configuration in step with discovery")
    .argument('<template>', 'a Handlebars file')
    .argument('<out>', 'the file to keep')
    .option('--exec <command>', 'makes the program read the file')
    .option('--check <command>', 'has to succeed before the file is replaced; {} in it is the new one')
    .option('--wait <min:max>', 'ms without a change to wait for, and ms to wait at most', waitTimes, [100, 1_000])
    .option('--deadline <seconds>', 'of each command', wholeNumber, 30)
    .option('--once', 'once, and exit')
    .action(
      (
        templateFile: string,
        out: string,
        options: { exec?: string; check?: string; wait: [number, number]; deadline: number; once?: true },
      ) =>
        untilStopped((signal) =>
          withClient(async (client) => {
            const template = compileTemplate(await readTemplate(templateFile), templateFile);
            const { exec, check, deadline, wait } = options;
            const file = {
              path: out,
              commandTimeoutMs: deadline * 1_000,
              ...(exec === undefined ? {} : { exec }),
              ...(check === undefined ? {} : { check }),
            };
            const { log, env } = io;
            const events = (s: AbortSignal) => client.subscribeAll({ signal: s, log });
            const [minMs, maxMs] = wait;
            if (options.once === true) {
              const limited = withDeadline(onceMs, signal);
              await renderOnce({ template, file, events, env, log, signal: limited });
            } else await keepRendered({ template, file, events, env, log, signal, minMs, maxMs });
          }),
        ),
    );

  program
    .command('serve')
    .description('serve discovery over HTTP and DNS, on etcd or in memory')
    .option('--listen <host:port>', 'for HTTP', '127.0.0.1:1111')
    .option('--dns <host:port>', 'for DNS; default: none')
    .option('--etcd <urls>', 'with commas between; default: in memory')
    .action((options: { listen: string; dns?: string; etcd?: string }) =>
      untilStopped((signal) =>
        serve({
          listen: options.listen,
          ...(options.dns === undefined ? {} : { dns: options.dns }),
          ...(options.etcd === undefined ? {} : { etcd: options.etcd.split(',') }),
          log: io.log,
          signal,
        }),
      ),
    );

  try {
    await program.parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const known = asFlynnError(error);
    say(known.message);
    return 1;
  }
}

function lineOf({ id, address, attributes }: Instance): string {
  const list = Object.entries(attributes).map(([name, value]) => `${name}=${value}`);
  return [id, address, list.join(',') || '-'].join('  ');
}

/** JSON has no undefined: who leads and what is written is null where there is nobody and nothing. */
function printable(event: DiscoveryEvent): unknown {
  if (event.event === 'leader') return { ...event, instance: event.instance ?? null };
  return event.event === 'meta' ? { ...event, meta: event.meta ?? null } : event;
}

function collect(text: string, before: Record<string, string>): Record<string, string> {
  const at = text.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('write NAME=VALUE');
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('not a whole number');
  return Number(text);
}

function ttlSeconds(text: string): number {
  const parsed = registrationSchema.shape.ttlSeconds.safeParse(wholeNumber(text));
  if (!parsed.success) throw new InvalidArgumentError('between 2 and 300 s');
  return parsed.data;
}

function waitTimes(text: string): [number, number] {
  const [, min, max] = /^(\d{1,6}):(\d{1,6})$/.exec(text) ?? [];
  if (min === undefined || max === undefined) throw new InvalidArgumentError('write MIN:MAX in ms, like 100:1000');
  return [Number(min), Number(max)];
}

function parseJson(text: string): z.core.util.JSONType {
  try {
    return z.json().parse(JSON.parse(text));
  } catch (error) {
    throw new FlynnError('invalid', `the document is not JSON: ${messageOf(error)}`, { cause: error });
  }
}

async function readTemplate(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new FlynnError('invalid', `the template ${file} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
