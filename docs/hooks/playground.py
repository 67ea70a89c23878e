"""Put the playground with the pretrained policies into the site, at `play/`."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from td3.play.site import make_files
from td3.play.sources import pretrained_policies


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add its files; MkDocs calls this."""
    for name, read in make_files(pretrained_policies(), offline=True).items():
        files.append(File.generated(config, f"play/{name}", content=read()))
    return files
