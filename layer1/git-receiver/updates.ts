/** Which of the refs a push wants to change is to be deployed, and what may not be pushed? */
import type { App } from '@flynn/controller/model';

export type RefUpdate = { before: string; after: string; ref: string };
export type Decision = { deploy: { commit: string; branch: string } } | { refusal: string[] };

/** Of an app's metadata: the branch that is deployed, and no other. */
const branchMeta = 'git.branch';

/** The first is the one to name. */
function branchesOf(meta: Readonly<Record<string, string>>): readonly [string, ...string[]] {
  const own = meta[branchMeta]?.trim() ?? '';
  return own === '' ? ['main', 'master'] : [own];
}

const isZero = (commit: string) => /^0+$/.test(commit);

/** The whole push is one: git moves either all of its refs or none. */
export function decide(updates: readonly RefUpdate[], app: Pick<App, 'name' | 'meta'>): Decision {
  const branches = branchesOf(app.meta);
  const [deployed] = branches;
  const [update] = updates;
  if (update === undefined) return { refusal: ['There is nothing in this push.'] };
  const tag = updates.find(({ ref }) => ref.startsWith('refs/tags/'));
  if (tag !== undefined) {
    return {
      refusal: [
        `Tags are not taken: ${tag.ref.slice('refs/tags/'.length)}.`,
        `Push the branch alone: git push flynn ${deployed}, without --tags or --follow-tags.`,
      ],
    };
  }
  const gone = updates.find(({ after }) => isZero(after));
  if (gone !== undefined) {
    return {
      refusal: [
        `${branchOf(gone.ref)} cannot be deleted: it is what was deployed last.`,
        'To stop the app scale it to nothing; to delete it: flynn delete.',
      ],
    };
  }
  const other = updates.find(({ ref }) => !branches.some((branch) => ref === `refs/heads/${branch}`));
  if (other !== undefined) {
    const branch = branchOf(other.ref);
    return {
      refusal: [
        `Only ${deployed} is deployed, not ${branch}.`,
        `To deploy the commit you are on: git push flynn HEAD:${deployed}; to deploy that branch: git push flynn ${branch}:${deployed}, or with a + before it where the two have parted`,
        ...(other.ref.startsWith('refs/heads/')
          ? [
              `To have pushes to ${branch} deployed from now on, and no others: flynn -a ${app.name} meta set ${branchMeta}=${branch}`,
            ]
          : []),
      ],
    };
  }
  if (updates.length > 1) return { refusal: ['One branch at a time: main or master, not both in one push.'] };
  return { deploy: { commit: update.after, branch: branchOf(update.ref) } };
}

/** git would refuse it once it was live: a branch ends with a commit, not with a tag, whatever that leads to. */
export function noCommit(type: string, branch: string): string[] {
  return [
    `What is pushed is a ${type} and not a commit.`,
    `To deploy the commit that a tag is of: git push flynn 'TAG^{}:refs/heads/${branch}'`,
  ];
}

/** Of a clone that was made with a depth. */
export const notWhole: readonly string[] = [
  'Commits before the one that is pushed are missing: it comes from a shallow clone, as those of CI often are.',
  'Fetch them first: git fetch --unshallow; for actions/checkout: fetch-depth: 0. Nothing was deployed.',
];

/** To git a ref is a file: none lies below another. */
export function inTheWayOf(ref: string, others: readonly string[]): string[] {
  return others.filter((other) => other.startsWith(`${ref}/`) || ref.startsWith(`${other}/`));
}

/** The lines git gives to a pre-receive hook: old, new, ref. */
export function parseUpdates(text: string): RefUpdate[] {
  return text.split('\n').flatMap((line) => {
    const [, before, after, ref] = /^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) (.+)$/.exec(line) ?? [];
    return before === undefined || after === undefined || ref === undefined ? [] : [{ before, after, ref }];
  });
}

function branchOf(ref: string): string {
  return ref.replace(/^refs\/(?:heads\/)?/, '');
}
