/** `npm run up`: this machine as a cluster, with a sample app on it. Run again: brings the platform up to date. */
import { hostname } from 'node:os';
import { styleText } from 'node:util';
import { messageOf } from '@flynn/kit/errors';
import { newSecret } from '@flynn/kit/secrets';
import { Listr, PRESET_TIMER } from 'listr2';
import { findPerson } from './cli-config.ts';
import { primaryAddress, readFacts } from './facts.ts';
import { judge } from './preflight.ts';
import { sampleName } from './sample-app.ts';
import { type Cluster, appUrlOf, readOptions, settle } from './settings.ts';
import { readCluster } from './state.ts';
import { type Step, stepsOf } from './steps.ts';

async function main(): Promise<void> {
  const options = readOptions(process.env);
  const cluster = settle(options, await readCluster(options.FLYNN_STATE_DIR), {
    hostname: hostname(),
    address: await primaryAddress(),
    now: new Date(),
    newSecret: () => newSecret(),
  });
  const problems = judge(await readFacts(options, cluster), cluster);
  if (problems.length > 0) {
    const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}`);
    process.stderr.write(`This machine is not ready to be a host. Nothing was changed.\n\n${lines.join('\n')}\n`);
    process.exitCode = 1;
    return;
  }
  const person = await findPerson(options.FLYNN_CONFIG_DIR, process.env);
  await runSteps(stepsOf({ options, cluster, person, env: process.env }));
  process.stdout.write(farewell(cluster));
}

async function runSteps(steps: readonly Step[]): Promise<void> {
  let failure: unknown;
  const list = new Listr(
    steps.map((step) => ({
      title: step.title,
      task: async (_context: unknown, task: { title: string; output: string }) => {
        let word: string | void;
        try {
          word = await step.run((line) => {
            task.output = line;
          });
        } catch (error) {
          // Told in full once the list is done, not squeezed into a line of it.
          failure = error;
          throw new Error('see below', { cause: error });
        }
        if (typeof word === 'string') task.title = `${step.title}: ${word}`;
      },
    })),
    {
      concurrent: false,
      exitOnError: true,
      renderer: 'default',
      fallbackRenderer: 'simple',
      rendererOptions: { timer: PRESET_TIMER, collapseErrors: false, showErrorMessage: false },
      fallbackRendererOptions: { timer: PRESET_TIMER },
    },
  );
  try {
    await list.run();
  } catch (error) {
    throw failure ?? error;
  }
}

function farewell(cluster: Cluster): string {
  const url = appUrlOf(sampleName, cluster);
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  return [
    `\nThe cluster is up, and the sample app is live at ${styleText('cyan', url)}\n\n`,
    command(`curl ${url}`),
    '\nNext, in the folder of an app of yours (a git repository with a package.json, or a Procfile):\n\n',
    command('flynn create my-app'),
    command('git push flynn main'),
    command('flynn scale web=3'),
    command('flynn log -f'),
    `\nflynn is ${styleText('bold', 'bin/flynn')} in this repository: link it into your PATH. npm run down takes everything away again.\n`,
  ].join('');
}

try {
  await main();
} catch (error) {
  process.stderr.write(
    `\n${styleText('red', '✖')} ${messageOf(error)}\n\nWhat is done so far stays; run the same command again to go on, or npm run down to take it away.\n`,
  );
  process.exitCode = 1;
}
