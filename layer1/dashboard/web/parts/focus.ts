/**
 * Where the focus goes: who works by keyboard, or hears the page, begins at its top again wherever it is lost. All of it is done
 * before what goes is gone: after that, nothing tells where the focus was.
 */
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** What goes away with the focus in it leaves that to the table it stood in, or to the page. For the `ref` of an element. */
export function useFocusLeft(): RefObject<HTMLSpanElement | null> {
  const own = useRef<HTMLSpanElement>(null);
  useLayoutEffect(
    () => () => {
      const element = own.current;
      if (element === null || !element.contains(document.activeElement)) return;
      const places = [element.closest<HTMLElement>('[role="region"]'), document.getElementById('content')];
      // Once it is known what has gone along with it.
      queueMicrotask(() => {
        if (document.activeElement !== document.body) return;
        places.find((place) => place?.isConnected === true)?.focus({ preventScroll: true });
      });
    },
    [],
  );
  return own;
}

/** A dialog that is open for as long as it is there. What had the focus before has it again after: browsers do that at its end. */
export function useOpenDialog(): RefObject<HTMLDialogElement | null> {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const opened = dialog.current;
    opened?.showModal();
    return () => opened?.close();
  }, []);
  return dialog;
}
