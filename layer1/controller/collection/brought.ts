/** What somebody brought is known by a name that the blob store has, so that any controller knows it. */

/** Names of what somebody brought begin so; they go a day later. */
export const broughtNames = 'brought';

/** `owner`: the id of who asks, or `app:ID` of what a runner outside of the cluster stored for an app. */
export function broughtName(owner: string, digest: string): string {
  return `${broughtNames}/${owner.replace(':', '/')}/${digest.replace(/^sha256:/, '')}`;
}
