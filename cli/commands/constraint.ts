import { typedConstraint } from '@flynn/controller/processes/constraints';
import type { Process } from '@flynn/controller/processes/process';
import { hostTagName } from '@flynn/kit/names';
import { usageError } from '../arguments.ts';
import { changeRelease, newestRelease, processOf } from '../deployments/next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

type Constraint = NonNullable<Process['constraints']>[number];

/** Hosts’ own, which is not a tag: their id. */
const hostAttribute = 'host';

export function addConstraintCommands(parent: Parent): void {
  const constraint = addCommand(parent, {
    name: 'constraint',
    summary: 'which hosts the jobs of each process type may be on',
    async run(context) {
      const processes = Object.entries((await newestRelease(context))?.processes ?? {});
      context.show(Object.fromEntries(processes.map(([type, { constraints = [] }]) => [type, constraints])), () =>
        formatTable(
          ['TYPE', 'HOSTS'],
          processes.flatMap(([type, { constraints = [] }]) =>
            constraints.length === 0 ? [[type, 'any']] : constraints.map((one) => [type, typedConstraint(one)]),
          ),
        ),
      );
    },
  });

  addCommand(parent, {
    under: constraint,
    name: 'set',
    summary: 'change which hosts its jobs may be on, as a new release that is rolled out',
    arguments: [
      ['<type>', 'the process type'],
      [
        '<constraints...>',
        "disk=ssd, zone=a,b and gpu!=no, by hosts' tags; gpu: has that tag, '!gpu': has not; host=k2: by id; distinct:zone, distinct:host: no two of its jobs in one zone, on one host; disk= and distinct:zone= are any again",
      ],
    ],
    async run(context, _options, [type = '', ...args]) {
      const wishes = args.map(wishOf);
      const asked = wishes.flatMap(({ wanted }) => wanted ?? []);
      checkOnce(asked);
      checkGivenUp(wishes);
      const changed = new Set(wishes.map(({ subject }) => subject));
      await changeRelease(
        context,
        (before) => {
          const process = processOf(before, type);
          const { constraints: present = [] } = process;
          const kept = present.filter((one) => !changed.has(subjectOf(one)));
          const constraints = [...kept, ...asked].toSorted((a, b) => order(a.attribute, b.attribute));
          if (isSame(constraints, present)) return undefined;
          return { processes: { ...before?.processes, [type]: { ...process, constraints } } };
        },
        { unchanged: 'nothing changes: the constraints are as they are to be' },
      );
    },
  });
}

const distinctPrefix = 'distinct:';

/** What it says something about, as it is typed: which hosts by an attribute, or that no two jobs share its value. */
function subjectOf({ attribute, operator }: Pick<Constraint, 'attribute' | 'operator'>): string {
  return operator === 'distinct' ? `${distinctPrefix}${attribute}` : attribute;
}

/** It takes the place of all that is said about the subject; nothing is wanted where any host will do. */
type Wish = { subject: string; wanted?: Constraint };

function wishOf(arg: string): Wish {
  return arg.startsWith(distinctPrefix) ? distinctWishOf(arg) : hostWishOf(arg);
}

function distinctWishOf(arg: string): Wish {
  const [, attribute = '', sign = ''] = /^(.*?)(=?)$/s.exec(arg.slice(distinctPrefix.length)) ?? [];
  if (!hostTagName.safeParse(attribute).success) {
    throw usageError(
      `"${arg}" keeps no jobs apart: write distinct:zone, distinct:host, or distinct:zone= to give it up`,
    );
  }
  const wanted: Constraint = { attribute, operator: 'distinct', values: [] };
  const subject = subjectOf(wanted);
  return sign === '' ? { subject, wanted } : { subject };
}

function hostWishOf(arg: string): Wish {
  const [, attribute = '', sign, text = ''] = /^(.*?)(?:(!?=)(.*))?$/s.exec(arg) ?? [];
  const isMissing = sign === undefined && attribute.startsWith('!');
  const name = isMissing ? attribute.slice(1) : attribute;
  if (!hostTagName.safeParse(name).success) {
    throw usageError(`"${arg}" asks nothing of hosts: write disk=ssd, zone=a,b, gpu!=no, gpu or '!gpu'`);
  }
  const wish = (operator: Constraint['operator'], values: string[]) => {
    return { subject: name, wanted: { attribute: name, operator, values } };
  };
  if (sign === undefined && name === hostAttribute) {
    throw usageError(`"${arg}" chooses no hosts, as each has an id: write host=k2, host!=k2 or distinct:host`);
  }
  if (sign === undefined) return wish(isMissing ? 'missing' : 'exists', []);
  if (text.startsWith('=')) {
    throw usageError(`"${arg}" has a sign too many: write ${name}${sign}${text.replace(/^=+/, '')}`);
  }
  if (sign === '=' && text === '') return { subject: name };
  const values = text.split(',');
  if (values.includes('')) throw usageError(`"${arg}" leaves a value out: write ${name}${sign}a,b`);
  return wish(sign === '=' ? 'in' : 'not_in', values);
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A value may have a comma in it where a file gave it: the text alone does not tell. */
function isSame(a: readonly Constraint[], b: readonly Constraint[]): boolean {
  const known = ({ attribute, operator, values }: Constraint) => JSON.stringify([attribute, operator, values]);
  return a.map(known).toSorted().join('\n') === b.map(known).toSorted().join('\n');
}

/** All of them have to be met: of two lists of values for one attribute nobody wants what they share. */
function checkOnce(asked: readonly Constraint[]): void {
  const twice = asked.find((one, index) => {
    const isAlike = ({ attribute, operator }: Constraint) => attribute === one.attribute && operator === one.operator;
    return asked.findIndex(isAlike) !== index;
  });
  if (twice === undefined) return;
  const how = twice.values.length === 0 ? 'write it once' : 'write its values with commas';
  throw usageError(`${subjectOf(twice)} is asked for twice: ${how}`);
}

function checkGivenUp(wishes: readonly Wish[]): void {
  const givenUp = new Set(wishes.flatMap(({ subject, wanted }) => (wanted === undefined ? [subject] : [])));
  const both = wishes.find(({ subject, wanted }) => wanted !== undefined && givenUp.has(subject));
  if (both !== undefined) throw usageError(`${both.subject} is asked for and given up at once: write one of both`);
}
